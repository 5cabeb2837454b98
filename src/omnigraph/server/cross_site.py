"""Pages of other sites: a server without tokens answers programs and its own page only.

A browser sends no bearer token by itself, so a server with tokens has nothing to fear from pages.
Without tokens, any page that its visitor opens could write to a server on the same machine. Two
headers, which no page can forge, tell on it:

1. `Origin`: the page that sends the request. It must be the address that was asked.
2. `Host`: the name that was asked. A page may make its own name resolve to this machine (DNS
   rebinding). If the server listens to this machine alone, the name must therefore be an address,
   `localhost`, or one that the configuration lists.
"""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request

from omnigraph.errors import CrossSite
from omnigraph.server.runtime.settings import ServerSettings

_READS = frozenset({"GET", "HEAD"})


def check_own_page(request: Request, settings: ServerSettings) -> None:
    """Raises CrossSite."""
    host = request.headers.get("host", "")
    name = _split(f"//{host}").hostname or ""
    if _is_loopback(settings.bind) and not _is_own(name, settings):
        expected = "not an address, localhost, or one of `hosts` in server.yaml"
        raise CrossSite("Host", value=host, expected=expected)
    origin = request.headers.get("origin")
    # The answer to a read reaches no page of another site: no answer carries CORS headers.
    if request.method in _READS or origin is None:
        return
    if _split(origin).netloc.lower() != host.lower():
        raise CrossSite("Origin", value=origin, expected=f"not {host!r}")


def _split(address: str) -> SplitResult:
    """The parts of an address; of one that is malformed, none."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def _is_loopback(bind: str) -> bool:
    try:
        return ip_address(bind.rpartition(":")[0].strip("[]") or "127.0.0.1").is_loopback
    except ValueError:
        return bind.startswith("localhost:")


def _is_own(name: str, settings: ServerSettings) -> bool:
    if name == "localhost" or name.endswith(".localhost") or name in settings.hosts:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
