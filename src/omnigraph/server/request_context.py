"""One request: its actor, its graph, and the limits of its body.

The order is fixed: token, graph, policy, admission, engine. The server reads no byte of the body
before the token is known.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Final
from urllib.parse import unquote

from fastapi import Depends, Header, Query, Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from omnigraph.commit.manifest.records import Commit
from omnigraph.engine.cancellation import CancelToken, cancellable
from omnigraph.errors import RequestInvalid
from omnigraph.ids import BranchName
from omnigraph.jsontext import NestedTooDeeply, read_json
from omnigraph.policy.actions import Action
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.cross_site import check_own_page
from omnigraph.server.runtime.guard import AuthMode
from omnigraph.server.runtime.settings import Limits
from omnigraph.server.runtime.state import ServedGraph, ServerRuntime, ServerState
from omnigraph.server.telemetry import metrics
from omnigraph.wire.formats import MAYBE_BRANCH
from omnigraph.wire.media import MESSAGE

IF_COMMIT: Final = "Omnigraph-If-Graph-Commit"
KEY: Final = "Idempotency-Key"
PREFER: Final = "Prefer"

SLOWEST_BYTES_PER_S: Final = 1024
"""A body that arrives more slowly is refused once `body_timeout_s` is used up."""

_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_KEY: Final = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request whose actor and graph are known."""

    runtime: ServerRuntime
    state: ServerState
    served_graph: ServedGraph
    actor: str | None
    request: Request
    token: CancelToken = field(default_factory=CancelToken)
    """Cancelled when the caller disconnects, on routes that read."""

    @property
    def graph(self) -> LocalGraph:
        """The graph, read as the caller: the engine asks the policy."""
        return self.served_graph.graph.acting_as(self.actor)

    def check(
        self, action: Action, branch: str | None = None, *, target: str | None = None
    ) -> None:
        """Ask the guard before anything is read. Raises Forbidden."""
        self.served_graph.guard(
            self.actor,
            action,
            None if branch is None else BranchName(branch),
            None if target is None else BranchName(target),
        )

    @property
    def key(self) -> str | None:
        """The idempotency key of the request. Raises RequestInvalid."""
        given = self.request.headers.get(KEY)
        if given is not None and not _KEY.fullmatch(given):
            raise RequestInvalid(f"{KEY} is 1 to 255 characters without spaces")
        return given

    @property
    def message(self) -> str | None:
        """Why the write is made; the commit keeps it. Bytes that are not UTF-8 are replaced."""
        given = self.request.headers.get(MESSAGE)
        return None if given is None else unquote(given, errors="replace")

    @property
    def prefers_job(self) -> bool:
        """Does the caller want a job instead of waiting?"""
        return "respond-async" in self.request.headers.get(PREFER, "")

    @property
    def stall_s(self) -> float:
        """How long the caller of a stream may read nothing."""
        return self.state.settings.limits.body_timeout_s

    @contextmanager
    def reading(self, timeout: float | None = None) -> Iterator[None]:
        """A read: it is cancelled after its time limit, or when the caller disconnects."""
        limit = self.state.settings.limits.query_seconds
        seconds = limit if timeout is None else min(limit, timeout)
        with cancellable(CancelToken(seconds, self.token)):
            yield

    def count(self, commit: Commit | None) -> None:
        """Count a commit in the metrics."""
        if commit is not None:
            metrics.COMMITS.labels(self.served_graph.id).inc()

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Raises TooManyRequests."""
        size = getattr(self.request.state, "body_bytes", 0)
        with self.runtime.admission.admitted(self.actor, size):
            yield


# FastAPI runs a dependency that is a plain function in a thread: each of them would cost a request
# two switches of threads. Those that only compute are coroutines, and run on the event loop.


async def _find_context(request: Request) -> RequestContext:
    context = request.state.context
    assert isinstance(context, RequestContext)
    return context


Context = Annotated[RequestContext, Depends(_find_context)]


def find_runtime(request: Request) -> ServerRuntime:
    runtime = request.app.state.runtime
    assert isinstance(runtime, ServerRuntime)
    return runtime


def find_actor(request: Request, state: ServerState) -> str | None:
    """Who asks. Raises Unauthorized, TooManyFailedLogins, CrossSite."""
    if state.auth_mode is AuthMode.OPEN:
        check_own_page(request, state.settings)
    address = "unknown" if request.client is None else request.client.host
    header = request.headers.get("authorization")
    return find_runtime(request).authenticate(state, header, address)


async def _declare_key(
    key: Annotated[
        str | None,
        Header(
            alias=KEY,
            description="A write repeated with the same key returns its first answer.",
            pattern="^[!-~]{1,255}$",
        ),
    ] = None,
    message: Annotated[
        str | None,
        Header(
            alias=MESSAGE,
            description="Why the write is made: UTF-8, percent-encoded. The commit keeps it.",
            pattern="^([!-$&-~]|%[0-9A-Fa-f]{2})*$",
            max_length=4096,
        ),
    ] = None,
) -> None:
    """Declares the header in the OpenAPI document."""


KEYED: Final = Depends(_declare_key)
"""For the routes that write."""


async def _declare_preference(
    prefer: Annotated[
        str | None, Header(alias=PREFER, description="`respond-async`: answer 202 with a job.")
    ] = None,
) -> None:
    """Declares the header in the OpenAPI document."""


PREFERRED: Final = Depends(_declare_preference)
"""For the routes whose work can be a job."""

BranchQuery = Annotated[
    str | None, Query(description="The branch; main by default.", json_schema_extra=MAYBE_BRANCH)
]
"""For the routes that take the branch from the query string."""


async def _find_runtime(request: Request) -> ServerRuntime:
    return find_runtime(request)


CurrentRuntime = Annotated[ServerRuntime, Depends(_find_runtime)]


class LimitedRequest(Request):
    """A request whose body is limited in size and in time."""

    def __init__(self, request: Request, limits: Limits, bytes_max: int) -> None:
        super().__init__(request.scope, request.receive)
        self._limits = limits
        self._bytes_max = bytes_max
        self._is_read = asyncio.Event()
        if request.method in ("GET", "HEAD"):
            self._is_read.set()

    async def wait_for_departure(self) -> None:
        """Wait until the caller disconnects. The body must have been read by then."""
        await self._is_read.wait()
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives. Raises HTTPException if it is too large or too slow."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            # The size of a compressed body is not known before it is decompressed.
            reason = "the body is encoded; send it without Content-Encoding"
            raise HTTPException(415, reason, {"Accept-Encoding": "identity"})
        declared = self.headers.get("content-length", "")
        too_large = f"the body is larger than {self._bytes_max} bytes"
        if declared.isdecimal() and int(declared) > self._bytes_max:
            raise HTTPException(413, too_large)
        count = 0
        waited_s = 0.0
        patience_s = self._limits.body_timeout_s
        pieces = super().stream()
        clock = asyncio.get_running_loop().time
        while True:
            # Only the time spent waiting counts, not the time the server takes for a piece. A
            # client that sends single bytes would otherwise hold the request without limit.
            left_s = patience_s + count / SLOWEST_BYTES_PER_S - waited_s
            began = clock()
            try:
                async with asyncio.timeout(min(patience_s, left_s)):
                    piece = await anext(pieces)
            except StopAsyncIteration:
                self._is_read.set()
                return
            except TimeoutError:
                raise HTTPException(408, "the body did not arrive in time") from None
            waited_s += clock() - began
            count += len(piece)
            self.state.body_bytes = count
            if count > self._bytes_max:
                raise HTTPException(413, too_large)
            yield piece

    async def json(self) -> Any:
        """Raises JSONDecodeError; HTTPException for a body that is not UTF-8."""
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json


def parse_json(body: bytes) -> Any:
    """Raises JSONDecodeError, HTTPException."""
    try:
        text = body.decode("utf-8")
        found = read_json(text)
        if _ESCAPED_SURROGATE.search(body):
            # JSON can spell a lone surrogate, which UTF-8 cannot store.
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError:
        raise HTTPException(400, "the body is not UTF-8 text") from None
    except UnicodeEncodeError:
        raise HTTPException(400, "the body holds half of a surrogate pair") from None
    except NestedTooDeeply as deep:
        raise HTTPException(400, f"the body cannot be read: {deep}") from None
    except ValueError:
        raise HTTPException(400, "the body holds a number too long") from None
    return found


Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Route(APIRoute):
    """A route for GET also answers HEAD, without the body: load balancers send HEAD."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # If a route for HEAD itself existed, Starlette would have chosen that one.
        if scope["method"] == "HEAD" and self.methods == {"GET"}:
            scope = {**scope, "method": "GET"}
        await super().handle(scope, receive, send)


class ServerRoute(Route):
    """A route about the server itself; it checks the token on its own."""

    def get_route_handler(self) -> Handler:
        original = super().get_route_handler()

        async def limited(request: Request) -> Response:
            limits = find_runtime(request).current.settings.limits
            return await original(LimitedRequest(request, limits, limits.body_bytes))

        return limited


class GraphRoute(Route):
    """A route of one graph: checks the token, finds the graph, limits the body."""

    def bytes_max(self, limits: Limits) -> int:
        return limits.body_bytes

    def get_route_handler(self) -> Handler:
        original = super().get_route_handler()

        async def answer_known(request: Request) -> Response:
            runtime = find_runtime(request)
            state = runtime.current
            actor = find_actor(request, state)
            graph_id = request.path_params.get("graph_id")
            if graph_id is None and len(state.graphs) != 1:
                raise HTTPException(404)  # the short address needs a server of one graph
            served_graph = state.find_graph(graph_id)
            limits = state.settings.limits
            limited = LimitedRequest(request, limits, self.bytes_max(limits))
            request.state.context = RequestContext(runtime, state, served_graph, actor, limited)
            return await self.answer(original, limited, request.state.context)

        return answer_known

    async def answer(
        self,
        handler: Handler,
        request: LimitedRequest,
        context: RequestContext,  # noqa: ARG002 - for routes that read
    ) -> Response:
        return await handler(request)


class ReadRoute(GraphRoute):
    """A route whose work is cancelled when the caller disconnects."""

    async def answer(
        self, handler: Handler, request: LimitedRequest, context: RequestContext
    ) -> Response:
        async def watch() -> None:
            await request.wait_for_departure()
            context.token.cancel()

        watching = asyncio.create_task(watch())
        try:
            return await handler(request)
        finally:
            watching.cancel()


class LoadRoute(GraphRoute):
    """A load whose records are in a JSON string."""

    def bytes_max(self, limits: Limits) -> int:
        return limits.load_body_bytes


class StreamRoute(GraphRoute):
    """A load that is spooled to disk as it arrives."""

    def bytes_max(self, limits: Limits) -> int:
        return limits.load_stream_bytes
