"""What the asynchronous client has beyond the suite of clients: parity, concurrency, cancelling."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

import pytest

import omnigraph
from omnigraph.engine.query.blob import OpenBlob
from omnigraph.errors import (
    BlobRangeInvalid,
    GraphClosed,
    QueryTimeout,
    ServerUnreachable,
    UsageError,
)
from omnigraph.sdk.async_handles import AsyncBranch, AsyncSnapshot, AsyncTransaction
from omnigraph.sdk.handles import Branch, Snapshot, Transaction
from omnigraph.sdk.remote.async_graph import AsyncGraph
from omnigraph.sdk.remote.blob import AsyncBlob
from omnigraph.sdk.remote.branches import AsyncBranches
from omnigraph.sdk.remote.graph import RemoteBaseline, RemoteBranches, RemoteDiff, RemoteGraph
from omnigraph.sdk.remote.review import AsyncBaseline, AsyncDiff
from omnigraph.server.runtime.settings import Flags
from omnigraph.storage.durability import Durability
from support.serving import Running, running

READ = "query q() { match { $l: Letter } return { $l.name } }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("awaited") / "g"
    schema = "node Letter { name: String @key  scan: Blob? }"
    graph = omnigraph.init(place, schema, durability=Durability.RELAXED)
    graph.insert("Letter", [{"name": f"n{number:04}"} for number in range(2_000)])
    graph.insert("Letter", [{"name": "a", "scan": b"0123456789"}])
    flags = Flags(graphs=(f"g={place}",), unauthenticated=True)
    with running(flags) as found:
        yield found


# ── parity ───────────────────────────────────────────────────────────────────────────────────────

PAIRS = [
    (RemoteGraph, AsyncGraph),
    (RemoteBranches, AsyncBranches),
    (RemoteDiff, AsyncDiff),
    (RemoteBaseline, AsyncBaseline),
    (Branch, AsyncBranch),
    (Snapshot, AsyncSnapshot),
    (Transaction, AsyncTransaction),
]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "awaited"), PAIRS, ids=lambda kind: kind.__name__)
def test_every_public_method_has_its_asynchronous_twin(blocking: type, awaited: type) -> None:
    assert public(blocking) <= public(awaited)
    for name in sorted(public(blocking)):
        one, two = (inspect.getattr_static(each, name) for each in (blocking, awaited))
        if not callable(one):
            assert isinstance(one, property | cached_property), name
            assert isinstance(two, property), name
            continue
        expected, found = (
            [
                (each.name, each.kind, each.default)
                for each in inspect.signature(method).parameters.values()
                if each.name != "self"
            ]
            for method in (one, two)
        )
        assert found == expected, name


def test_a_blob_is_read_by_the_same_names() -> None:
    assert {"read", "chunks", "length", "etag", "uri", "commit_id"} <= public(AsyncBlob)
    for name in ("read", "chunks"):
        two = inspect.signature(getattr(AsyncBlob, name)).parameters
        assert two.keys() == inspect.signature(getattr(OpenBlob, name)).parameters.keys()


# ── a real server ────────────────────────────────────────────────────────────────────────────────


def test_a_hundred_calls_share_one_client(server: Running) -> None:
    async def ask() -> list[int]:
        async with omnigraph.aopen(server.url, graph="g") as graph:
            results = await asyncio.gather(*(graph.query(READ) for _ in range(100)))
            return [len(each) for each in results]

    assert asyncio.run(ask()) == [2_001] * 100


def test_streams_handles_and_blobs_are_awaited(server: Running, tmp_path: Path) -> None:
    async def use() -> None:
        graph = await omnigraph.aopen(server.url, graph="g")
        async with graph:
            lines = b"".join([each async for each in graph.export_lines()])
            assert lines.count(b"\n") == 2_001
            out = tmp_path / "out.jsonl"
            assert (await graph.export(out)).counts == {"node:Letter": 2_001}
            assert out.read_bytes() == lines
            blob = await graph.blob("node", "Letter", "a", "scan")
            assert (blob.length, await blob.read(3, 4)) == (10, b"3456")
            with pytest.raises(BlobRangeInvalid):
                await blob.read(11)
            topic = await graph.branch("topic", create=True)
            async with topic.transaction(message="two") as tx:
                tx.insert("Letter", [{"name": "x"}])
                tx.insert("Letter", [{"name": "y"}])
            assert tx.result is not None
            head = await topic.head
            assert head is not None
            assert (head.message, str(head.row_counts)) == ("two", "+2 ~0 −0")
            before = await graph.at()
            diff = await before.diff(topic)
            assert [each.id async for each in diff.changes()] == ["x", "y"]
            assert (await topic.entity("Letter", "x")) is not None
            assert (await topic.merge_into()).outcome == "fast_forward"
            assert "node Letter" in await graph.schema_source
            await graph.delete("Letter", ["x", "y"])
            await graph.branches.delete("topic")
        with pytest.raises(GraphClosed):
            await graph.commits()
        await graph.close()

    asyncio.run(use())


def test_a_cancelled_export_leaves_no_file(server: Running, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    async def use() -> None:
        async with omnigraph.aopen(server.url, graph="g") as graph:
            lines = graph.export_lines

            async def slow(**options: object) -> AsyncIterator[bytes]:
                async for each in lines(**options):  # type: ignore[arg-type]
                    yield each
                    await asyncio.sleep(60)

            graph.export_lines = slow  # type: ignore[method-assign]
            task = asyncio.create_task(graph.export(out))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(use())
    assert list(tmp_path.iterdir()) == []


def test_a_path_is_told_what_to_do_with_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"omnigraph\.open.*to_thread"):
        omnigraph.aopen(str(tmp_path / "g.omni"))
    with pytest.raises(UsageError):
        omnigraph.aopen("http://")
    assert "await it" in repr(omnigraph.aopen("http://host"))


# ── servers that misbehave ───────────────────────────────────────────────────────────────────────

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[omnigraph.AsyncGraph]:
    """A client of a server that is one function."""
    serving = []

    async def track(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    async with await asyncio.start_server(track, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with omnigraph.aopen(f"http://127.0.0.1:{port}") as graph:
            yield graph
        await asyncio.gather(*(each for each in serving if each is not None))


async def answer(writer: asyncio.StreamWriter, body: bytes = b'{"branches": ["main"]}') -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    if length:
        await reader.readexactly(int(length[0].partition(b":")[2]))


def test_calls_are_in_flight_together() -> None:
    """The server answers no call before all hundred have come."""

    async def use() -> None:
        barrier = asyncio.Barrier(100)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await read_request(reader)
            await barrier.wait()
            await answer(writer)

        async with listening(serve) as graph, asyncio.timeout(30):
            found = await asyncio.gather(*(graph.branches.list() for _ in range(100)))
            assert found == [("main",)] * 100

    asyncio.run(use())


@pytest.mark.parametrize("call", ["query", "insert", "export_lines"])
def test_cancelling_a_call_closes_its_request(call: str) -> None:
    async def use() -> None:
        came, gone = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await read_request(reader)
            came.set()
            assert await reader.read() == b""
            gone.set()

        async with listening(serve) as graph, asyncio.timeout(20):
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "query": lambda: graph.query(READ),
                "insert": lambda: graph.insert("Letter", [{"name": "new"}]),
                "export_lines": lambda: anext(aiter(graph.export_lines())),
            }
            task = asyncio.ensure_future(calls[call]())
            await came.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await gone.wait()

    asyncio.run(use())


def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    async def use() -> None:
        keys = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            keys.append(head.lower().partition(b"idempotency-key: ")[2].split(b"\r\n")[0])
            if len(keys) == 3:
                await answer(
                    writer, b'{"uri": "g", "name": "topic", "actor_id": null, "from": "main"}'
                )

        async with listening(serve) as graph, asyncio.timeout(20):
            assert await graph.branches.create("topic") == "topic"
        assert len(keys) == 3
        assert len({*keys}) == 1
        assert keys[0]

    asyncio.run(use())


def test_silence_ends_at_the_time_that_a_read_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.sdk.remote.http.GRACE_S", 0.1)

    async def use() -> None:
        async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            await read_request(reader)
            await reader.read()

        async with listening(serve) as graph:
            with pytest.raises(QueryTimeout):
                await graph.query(READ, timeout=0.1)

    asyncio.run(use())


def test_a_server_that_is_not_there_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.sdk.remote.http.BACKOFF_MS", 1)

    async def use() -> None:
        async with omnigraph.aopen("http://127.0.0.1:9") as graph:
            with pytest.raises(ServerUnreachable):
                await graph.commits()

    asyncio.run(use())
