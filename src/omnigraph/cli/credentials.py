"""Tokens of servers: `~/.omnigraph/credentials`, an INI file that only its owner may read."""

import configparser
import os
import re
import stat
from pathlib import Path
from typing import Final

from omnigraph.cli.config import Config, config_path
from omnigraph.errors import ConfigInvalid, UsageError

ANY_SERVER: Final = "OMNIGRAPH_BEARER_TOKEN"

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_TOKEN: Final = re.compile(r"[!-~]+")
"""The characters that a header can carry."""


def credentials_path() -> Path:
    return config_path().with_name("credentials")


def find_token(url: str, config: Config) -> str | None:
    """The token of the configured server with this URL, or else the general token.

    Raises ConfigInvalid.
    """
    matching = [
        (len(server), name)
        for name, server in config.servers.items()
        if url == server or url.startswith(f"{server.rstrip('/')}/")
    ]
    if matching:
        _, name = max(matching)
        variable = f"OMNIGRAPH_TOKEN_{name.upper().replace('-', '_')}"
        own = os.environ.get(variable) or _read().get(name, "token", fallback=None)
        if own:
            return own
    return os.environ.get(ANY_SERVER) or None


def save_token(name: str, token: str) -> Path:
    """Raises UsageError for a name or a token that cannot be saved; ConfigInvalid."""
    if not _NAME.fullmatch(name) or name == configparser.DEFAULTSECT:
        raise UsageError(f"{name!r} cannot name a server: use letters, digits, '.', '-' and '_'")
    if not token.strip():
        raise UsageError("the token is blank")
    if not _TOKEN.fullmatch(token.strip()):
        raise UsageError("the token has spaces in it, or signs that are not ASCII")
    found = _read()
    if not found.has_section(name):
        found.add_section(name)
    found.set(name, "token", token.strip())
    return _write(found)


def remove_token(name: str) -> Path:
    """Remove a token, if there is one."""
    found = _read()
    if found.remove_section(name):
        return _write(found)
    return credentials_path()


def _read() -> configparser.RawConfigParser:
    found = configparser.RawConfigParser()
    path = credentials_path()
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise ConfigInvalid(str(path), reason=f"others may read it; say: chmod 600 {path}")
        found.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(str(path), reason=str(error)) from error
    except configparser.Error:
        # The text may hold tokens, so the message quotes none of it.
        raise ConfigInvalid(str(path), reason="it is not an INI file") from None
    return found


def _write(found: configparser.RawConfigParser) -> Path:
    path = credentials_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        found.write(file)
    fresh.replace(path)
    return path
