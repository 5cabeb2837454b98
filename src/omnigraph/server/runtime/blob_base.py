"""The allow list of external blobs: below which web addresses a caller may be redirected.

The writer of a graph chooses the address, and a program that follows redirects would ask it from
its own network: a metadata service, say. So nothing is allowed unless the configuration names it.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from omnigraph.errors import ConfigInvalid

_PORTS: Final = {"http": 80, "https": 443}
_PRINTABLE: Final = re.compile(r"[!-\[\]-~]+")
"""Without backslashes, which browsers read as slashes."""


@dataclass(frozen=True, slots=True)
class BlobBase:
    """`https://scans.example.org/letters/`: everything below it is allowed."""

    scheme: str
    host: str
    port: int
    path: str

    @staticmethod
    def parse(text: str, where: str) -> "BlobBase":
        """Raises ConfigInvalid."""
        found = _split(text)
        if found is None or found.query or not found.path.endswith("/"):
            reason = f"allow: {text!r} is no http or https address that ends with a slash"
            raise ConfigInvalid(where, reason=reason)
        return BlobBase(*_place(found), found.path)

    def holds(self, uri: str) -> bool:
        """Is the address below this base?"""
        found = _split(uri)
        if found is None or _place(found) != (self.scheme, self.host, self.port):
            return False
        is_straight = not {".", ".."} & set(re.split(r"[/\\]", unquote(found.path)))
        return is_straight and found.path.startswith(self.path)


def _split(text: str) -> SplitResult | None:
    """An http or https address without a user; None for everything else."""
    if not _PRINTABLE.fullmatch(text):
        return None
    try:
        found = urlsplit(text)
        _ = found.port
    except ValueError:
        return None
    is_web = found.scheme in _PORTS and found.hostname and "@" not in found.netloc
    return found if is_web and not found.fragment else None


def _place(found: SplitResult) -> tuple[str, str, int]:
    return found.scheme, found.hostname or "", found.port or _PORTS[found.scheme]
