"""The whole configuration of a server: flags, files and environment, read at one time.

It is a value that one worker reads and hands to the others, so that all workers serve by the same
rules even if the files change meanwhile. It adds no secret to those in the files: tokens are
hashes, and variables such as `$NAME` are resolved where they are used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import ConfigInvalid
from omnigraph.sdk.stored_queries import QueryFile, read_query_files
from omnigraph.server.runtime.settings import Flags, ServerSettings, read_settings
from omnigraph.server.runtime.tokens import Tokens, read_tokens


@dataclass(frozen=True, slots=True)
class PolicyFile:
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Configuration:
    settings: ServerSettings
    tokens: Tokens
    policies: Mapping[str, PolicyFile]
    """By graph."""
    server_policy: PolicyFile | None
    queries: Mapping[str, tuple[QueryFile, ...]]
    """By graph: the files of its folder of stored queries."""


def read_configuration(flags: Flags, environment: Mapping[str, str]) -> Configuration:
    """Read, without checking policies and queries. Raises ConfigInvalid, UsageError."""
    settings = read_settings(flags, environment)
    graphs = settings.graphs.items()
    server_policy = settings.server_policy
    return Configuration(
        settings,
        read_tokens(environment),
        {name: _read_policy(each.policy) for name, each in graphs if each.policy is not None},
        None if server_policy is None else _read_policy(server_policy),
        {name: read_query_files(each.queries) for name, each in graphs if each.queries is not None},
    )


def _read_policy(path: Path) -> PolicyFile:
    try:
        return PolicyFile(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(str(path), reason=str(error)) from error
