"""The settings of a server: flags, `server.yaml`, the environment.

They are read again at every reload. An unknown key is an error: a misspelt `policy` would otherwise
mean no policy.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final

import yaml

from omnigraph.embed.settings import (
    BASE_URL,
    MOCK,
    MODEL,
    PRESETS,
    PROVIDER,
    EmbedSettings,
    Provider,
    read_settings as read_embedding,
)
from omnigraph.engine.settings import DEFAULTS
from omnigraph.errors import ConfigInvalid, UsageError
from omnigraph.server.runtime.blob_base import BlobBase
from omnigraph.storage.bucket_options import expand_variables, options_of_document
from omnigraph.yamltext import read_yaml

UNAUTHENTICATED: Final = "OMNIGRAPH_UNAUTHENTICATED"
REQUIRE_ALL: Final = "OMNIGRAPH_REQUIRE_ALL_GRAPHS"
NAME_GRAPHS: Final = "OMNIGRAPH_METRICS_NAME_GRAPHS"
INFLIGHT: Final = "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX"
BYTES: Final = "OMNIGRAPH_PER_ACTOR_BYTES_MAX"
BIND: Final = "OMNIGRAPH_BIND"
GROUP: Final = "OMNIGRAPH_GROUP"

GRAPH_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
RESERVED: Final = frozenset({"policies", "healthz", "openapi", "graphs"})

EMBEDDING: Final = "embedding"
"""The name in errors about a provider: such an error quarantines one graph, not the server."""

MIB: Final = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a request, an actor and a graph. Each worker counts on its own."""

    inflight_per_actor: int = 64
    """Enough for large groups (D29), and a quarter of the threads of a worker: reads and the
    writes of other actors keep the rest."""
    bytes_per_actor: int = 4096 * MIB
    body_bytes: int = MIB
    load_body_bytes: int = 32 * MIB
    """A load whose records are in a JSON string."""
    load_stream_bytes: int = 64 * 1024 * MIB
    """A load that is streamed to disk."""
    body_timeout_s: int = 30
    """How long a client may send nothing, or fewer than 1024 bytes a second, of its body."""
    failed_logins: int = 10
    """After so many wrong tokens, an address waits before its next token is looked at."""
    drain_s: int = 30
    """After a stop signal: how long requests may still take, and then jobs."""
    query_seconds: int = 30
    """The time limit of one read."""
    query_memory_bytes: int = DEFAULTS.query_memory_bytes_max
    """The memory limit of one read."""
    query_cache_bytes: int = DEFAULTS.query_cache_bytes_max
    """The cache that the reads of a graph share."""
    storage_cache_bytes: int = DEFAULTS.storage_cache_bytes_max
    """The cache of the files of a graph."""


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """An embedding provider, as the file names it. Its key is in a variable, never in the file."""

    provider: str
    model: str | None = None
    base_url: str | None = None
    key_env: str | None = None

    def resolve(self, environment: Mapping[str, str]) -> EmbedSettings:
        """Raises ConfigInvalid."""
        named = {PROVIDER: self.provider, MODEL: self.model, BASE_URL: self.base_url}
        given = {name: value for name, value in named.items() if value is not None}
        rest = {key: each for key, each in environment.items() if key not in (MOCK, *named)}
        found = read_embedding({**rest, **given})
        if self.key_env is not None:
            found = replace(found, key=environment.get(self.key_env))
        if found.provider is not Provider.MOCK and not found.key:
            wanted = self.key_env or " or ".join(PRESETS[found.provider].keys)
            reason = f"the key of {found.provider} is not in {wanted}"
            raise ConfigInvalid(EMBEDDING, reason=reason)
        return found


@dataclass(frozen=True, slots=True)
class GraphSettings:
    uri: str
    policy: Path | None = None
    queries: Path | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As in the file; `$NAME` stands for a variable."""
    embedding: "EmbeddingSettings | None" = None
    """The provider that embeds the texts of queries; by default the environment names it."""
    blob_bases: tuple[BlobBase, ...] = ()
    """Where a caller may be redirected for the bytes of an external blob."""

    def resolve_options(self) -> dict[str, str]:
        """The options, with variables of the environment resolved. Raises ConfigInvalid."""
        return expand_variables(self.storage_options)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of the command line; they have precedence over the file."""

    config: Path | None = None
    graphs: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    bind: str | None = None
    unauthenticated: bool = False
    require_all_graphs: bool = False
    metrics_name_graphs: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the graphs that flags name."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    graphs: Mapping[str, GraphSettings]
    server_policy: Path | None = None
    bind: str = "127.0.0.1:8080"
    unauthenticated: bool = False
    require_all_graphs: bool = False
    metrics_name_graphs: bool = False
    """Does `/metrics` name graphs to every caller, or only to callers who may list graphs?"""
    group: bool = True
    """Do writes that wait for each other share one attempt?"""
    hosts: tuple[str, ...] = ()
    """Names by which browsers may reach a server without tokens, beside this machine's own."""
    limits: Limits = field(default_factory=Limits)


def read_settings(flags: Flags, environment: Mapping[str, str] = os.environ) -> ServerSettings:
    """Raises ConfigInvalid, UsageError."""
    file = _File(flags.config).read() if flags.config is not None else ServerSettings({})
    # In a file `$` stands for a variable; on the command line the shell has read it already.
    options = {name: each.replace("$", "$$") for name, each in flags.storage_options.items()}
    graphs = dict(file.graphs) | {
        name: GraphSettings(uri, storage_options=options)
        for name, uri in _pairs("--graph", "URI", flags.graphs)
    }
    for name, path in _pairs("--policy", "FILE", flags.policies):
        graphs[name] = _with(graphs, name, "--policy", policy=Path(path))
    for name, path in _pairs("--queries", "DIR", flags.queries):
        graphs[name] = _with(graphs, name, "--queries", queries=Path(path))
    if not graphs:
        raise UsageError("no graph to serve; give its URI, --graph ID=URI, or --config FILE")
    for name in graphs:
        check_graph_id(name)
    return ServerSettings(
        graphs=graphs,
        server_policy=file.server_policy,
        bind=flags.bind or environment.get(BIND) or file.bind,
        unauthenticated=flags.unauthenticated
        or file.unauthenticated
        or _is_set(environment, UNAUTHENTICATED),
        require_all_graphs=flags.require_all_graphs
        or file.require_all_graphs
        or _is_set(environment, REQUIRE_ALL),
        metrics_name_graphs=flags.metrics_name_graphs
        or file.metrics_name_graphs
        or _is_set(environment, NAME_GRAPHS),
        group=_is_on(environment, GROUP, file.group),
        hosts=file.hosts,
        limits=_limits(file.limits, environment),
    )


def check_graph_id(name: str) -> None:
    """Raises ConfigInvalid for an id that cannot stand in an address."""
    if not GRAPH_ID.fullmatch(name) or name in RESERVED:
        raise ConfigInvalid(
            f"graph '{name}'", reason="an id is 1 to 64 letters, digits and dashes, not reserved"
        )


def make_graph_id(uri: str) -> str:
    """The id of a graph that is named by its URI alone: `graphs/art_of.omni` is `art-of`."""
    name = PurePosixPath(uri.rstrip("/")).name.partition(".")[0]
    made = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:64]
    return made if made and made not in RESERVED else "graph"


def _with(
    graphs: Mapping[str, GraphSettings],
    name: str,
    flag: str,
    *,
    policy: Path | None = None,
    queries: Path | None = None,
) -> GraphSettings:
    found = graphs.get(name)
    if found is None:
        raise UsageError(f"{flag} names the graph '{name}', which is not served")
    return replace(found, policy=policy or found.policy, queries=queries or found.queries)


def _pairs(flag: str, what: str, given: Sequence[str]) -> list[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"{flag} takes ID={what}, not '{each}'")
        if name in pairs:
            raise UsageError(f"{flag} names the graph '{name}' twice")
        pairs[name] = value
    return list(pairs.items())


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() not in ("", "0", "false")


def _is_on(environment: Mapping[str, str], name: str, default: bool) -> bool:  # noqa: FBT001
    """Raises ConfigInvalid."""
    text = environment.get(name)
    if text is None:
        return default
    if text.lower() not in ("on", "off"):
        raise ConfigInvalid(name, reason=f"it is on or off, not '{text}'")
    return text.lower() == "on"


def _limits(limits: Limits, environment: Mapping[str, str]) -> Limits:
    def number(name: str, default: int) -> int:
        text = environment.get(name)
        if text is None:
            return default
        if not text.isdecimal() or int(text) == 0:
            raise ConfigInvalid(name, reason=f"it must be a number above 0, not '{text}'")
        return int(text)

    return replace(
        limits,
        inflight_per_actor=number(INFLIGHT, limits.inflight_per_actor),
        bytes_per_actor=number(BYTES, limits.bytes_per_actor),
    )


# ── server.yaml ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _File:
    """A `server.yaml`. Relative paths start at its folder."""

    path: Path

    def read(self) -> ServerSettings:
        try:
            document = read_yaml(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigInvalid(str(self.path), reason=str(error)) from error
        except yaml.YAMLError as error:
            raise ConfigInvalid(str(self.path), reason=f"it is not YAML: {error}") from error
        if self.path.name == "omnigraph.yaml":
            raise self._invalid("omnigraph.yaml is not read any more; write a server.yaml")
        known = {"version", "graphs", "policy", "bind", "limits", "embedding", "hosts"}
        flags = {"unauthenticated", "require_all_graphs", "metrics_name_graphs", "group"}
        top = self._section(document, "the file", known | flags)
        if top.get("version") != 1:
            raise self._invalid(f"version must be 1, not {top.get('version')!r}")
        found = top.get("graphs") or {}
        if not isinstance(found, dict):
            raise self._invalid("graphs must be a mapping")
        embedding = self._embedding(top.get("embedding"), "embedding")
        return ServerSettings(
            graphs={
                str(name): self._graph(each, f"graphs.{name}", embedding)
                for name, each in found.items()
            },
            server_policy=self._file(top, "policy", "the file"),
            bind=self._text(top, "bind", "the file") or "127.0.0.1:8080",
            unauthenticated=self._flag(top, "unauthenticated"),
            require_all_graphs=self._flag(top, "require_all_graphs"),
            metrics_name_graphs=self._flag(top, "metrics_name_graphs"),
            group=self._flag(top, "group", default=True),
            hosts=tuple(each.lower() for each in self._texts(top, "hosts", "the file")),
            limits=self._limits(top.get("limits") or {}),
        )

    def _graph(self, found: object, where: str, default: EmbeddingSettings | None) -> GraphSettings:
        known = {"uri", "policy", "queries", "storage_options", "embedding", "external_blobs"}
        section = self._section(found, where, known)
        uri = self._text(section, "uri", where)
        if uri is None:
            raise self._invalid(f"{where} needs a uri")
        options = options_of_document(section.get("storage_options"), f"{self.path}: {where}")
        return GraphSettings(
            uri=uri if "://" in uri else str(self.path.parent / uri),
            policy=self._file(section, "policy", where),
            queries=self._file(section, "queries", where),
            storage_options=options,
            embedding=self._embedding(section.get("embedding"), f"{where}.embedding") or default,
            blob_bases=self._blob_bases(section.get("external_blobs"), f"{where}.external_blobs"),
        )

    def _blob_bases(self, found: object, where: str) -> tuple[BlobBase, ...]:
        if found is None:
            return ()
        section = self._section(found, where, {"allow"})
        return tuple(
            BlobBase.parse(each, f"{self.path}: {where}")
            for each in self._texts(section, "allow", where)
        )

    def _embedding(self, found: object, where: str) -> EmbeddingSettings | None:
        if found is None:
            return None
        section = self._section(found, where, {"provider", "model", "base_url", "key_env"})
        provider = self._text(section, "provider", where)
        if provider not in set(Provider):
            raise self._invalid(f"{where} needs a provider: {', '.join(Provider)}")
        return EmbeddingSettings(
            str(provider),
            self._text(section, "model", where),
            self._text(section, "base_url", where),
            self._text(section, "key_env", where),
        )

    def _limits(self, found: object) -> Limits:
        known = set(Limits.__dataclass_fields__)
        section = self._section(found, "limits", known)
        for key, value in section.items():
            if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
                raise self._invalid(f"limits.{key} must be a number above 0, not {value!r}")
        numbers = {key: value for key, value in section.items() if isinstance(value, int)}
        return Limits(**numbers)

    def _section(self, found: object, where: str, known: set[str]) -> Mapping[str, object]:
        if not isinstance(found, dict):
            raise self._invalid(f"{where} must be a mapping")
        unknown = [key for key in found if key not in known]
        if unknown:
            raise self._invalid(f"{where} has the unknown key '{unknown[0]}'")
        return found

    def _text(self, section: Mapping[str, object], key: str, where: str) -> str | None:
        found = section.get(key)
        if found is None or isinstance(found, str):
            return found
        raise self._invalid(f"{where}: {key} must be text, not {found!r}")

    def _texts(self, section: Mapping[str, object], key: str, where: str) -> list[str]:
        found = section.get(key, [])
        if isinstance(found, list) and all(isinstance(each, str) and each for each in found):
            return found
        raise self._invalid(f"{where}: {key} must be a list of texts, not {found!r}")

    def _file(self, section: Mapping[str, object], key: str, where: str) -> Path | None:
        text = self._text(section, key, where)
        return None if text is None else self.path.parent / text

    def _flag(self, section: Mapping[str, object], key: str, *, default: bool = False) -> bool:
        found = section.get(key, default)
        if not isinstance(found, bool):
            raise self._invalid(f"{key} is true or false, not {found!r}")
        return found

    def _invalid(self, reason: str) -> ConfigInvalid:
        return ConfigInvalid(str(self.path), reason=reason)
