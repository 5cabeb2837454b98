"""Reads end when their time is over or nobody waits for them, and let go of what they hold."""

import asyncio
import gc
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

import omnigraph
from omnigraph.cli.app import run
from omnigraph.commit.context import Meter
from omnigraph.effects import REAL
from omnigraph.engine.cancellation import CancelToken, cancellable
from omnigraph.engine.graph import Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.query.columns.frame import Frame
from omnigraph.engine.settings import AccessMode, Settings
from omnigraph.errors import QueryCancelled, QueryTimeout, UsageError
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.server.runtime.settings import Flags
from omnigraph.storage.durability import Durability
from support.serving import Running, running

SCHEMA = """
node P { name: String @key  age: I64  town: String }
edge Next: P -> P
node Doc { slug: String @key  body: String @index  year: I64 @index  vec: Vector(8)? }
"""
COUNT = 1_200
RELAXED = Settings(durability=Durability.RELAXED)

ENDLESS = "match { $a: P $b: P $c: P $d: P } return { count($d) as n }"
HOARDING = "match { $a: P $b: P $c: P $c.age >= 0 } return { $a.age, $b.age, count($c) as n }"

OPERATORS = {
    "scan": 'match { $a: P $a.town = "t1" } return { $a.name }',
    "look up": 'match { $a: P { name: "p0001" } } return { $a.age }',
    "expand": "match { $a: P $a next $b } return { $b.name }",
    "search walk": "match { $a: P $a next{1,3} $b } return { count($b) as n }",
    "closing walk": "match { $a: P $a next $b $b next $a } return { $a.name }",
    "cross join": "match { $a: P $b: P } return { count($b) as n }",
    "anti join": "match { $a: P not { $a next $b $b.age > 7 } } return { $a.name }",
    "left join": "match { $a: P optional { $a next $b } } return { $a.name, $b.name }",
    "filter": "match { $a: P $b: P $a.age > $b.age } return { count($b) as n }",
    "sort": "match { $a: P $b: P $a.age < 300 } return { $a.name, $b.name } "
    "order { $b.name, $a.age desc }",
    "first rows": "match { $a: P $b: P } return { $a.name } order { $b.age } limit 3",
    "aggregate": "match { $a: P $b: P $a.age < 300 } return { $a.age, $b.age, count($a) as n }",
    "distinct": "match { $a: P $b: P } return { count(distinct $b.name) as n }",
    "text": 'match { $d: Doc search($d.body, "moon") } return { $d.slug }',
    "fuzzy": 'match { $d: Doc fuzzy($d.body, "mooon", 1) } return { $d.slug }',
    "rank": 'match { $d: Doc } return { $d.slug } order { bm25($d.body, "moon") } limit 5',
    "nearest": "match { $d: Doc } return { $d.slug } "
    "order { nearest($d.vec, [1,1,1,1,1,1,1,1]) } limit 5",
    "nearest of some": "match { $d: Doc $d.year > 3 } return { $d.slug } "
    "order { nearest($d.vec, [1,1,1,1,1,1,1,1]) } limit 5",
}


@dataclass
class Counted(Meter):
    """What an operator of a server would see."""

    reads: int = 0
    nbytes: int = 0
    peak: int = 0

    def reading(self, reads: int, nbytes: int) -> None:
        self.reads += reads
        self.nbytes += nbytes
        self.peak = max(self.peak, self.nbytes)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("deadlines") / "g"
    graph = LocalGraph(create(str(place), SCHEMA, settings=RELAXED))
    people = [{"name": f"p{at:04}", "age": at, "town": f"t{at % 7}"} for at in range(COUNT)]
    graph.insert("P", people)
    ends = [(at, (at * step + 1) % COUNT) for at in range(COUNT) for step in (2, 3, 5)]
    graph.insert("Next", [{"from": f"p{a:04}", "to": f"p{b:04}"} for a, b in ends])
    graph.insert(
        "Doc",
        [
            {"slug": f"d{at:04}", "body": f"moon word{at} sun", "year": at, "vec": [float(at)] * 8}
            for at in range(COUNT)
        ],
    )
    return place


def open_metered(root: Path, access: AccessMode = AccessMode.AUTO) -> tuple[LocalGraph, Counted]:
    counted = Counted()
    settings = replace(RELAXED, meter=counted, query_access=access)
    return LocalGraph(open_graph(str(root), mode=Mode.READ_ONLY, settings=settings)), counted


def spelled(body: str) -> str:
    return f"query q() {{ {body} }}"


# ── embedded ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("body", [ENDLESS, HOARDING])
def test_a_read_ends_at_its_deadline_and_holds_nothing_then(root: Path, body: str) -> None:
    graph, counted = open_metered(root)
    # What a process does once, as building the grammar, takes longer than that on a busy machine.
    graph.query(spelled("match { $a: P } return { $a.name } limit 1"))
    counted.peak = 0
    with pytest.raises(QueryTimeout) as late:  # it would take hours
        graph.query(spelled(body), timeout=0.5)
    assert late.value.seconds == 0.5
    assert (counted.reads, counted.nbytes) == (0, 0)
    assert counted.peak > 0


def test_an_analysis_has_the_same_deadline(root: Path) -> None:
    with pytest.raises(QueryTimeout):
        open_metered(root)[0].explain(spelled(ENDLESS), analyze=True, timeout=0.2)


def test_without_a_deadline_nothing_is_said(root: Path) -> None:
    graph, _ = open_metered(root)
    assert len(graph.query(spelled(OPERATORS["cross join"]))) == 1


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_deadline_is_a_time(root: Path, seconds: float) -> None:
    with pytest.raises(UsageError, match="above 0"):
        open_metered(root)[0].query(spelled(OPERATORS["scan"]), timeout=seconds)


# ── operators ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("access", [AccessMode.RESIDENT, AccessMode.INDEXED])
@pytest.mark.parametrize("operator", OPERATORS)
def test_no_operator_works_for_a_read_that_was_cancelled(
    root: Path, operator: str, access: AccessMode
) -> None:
    graph, counted = open_metered(root, access)
    token = CancelToken()
    token.cancel()
    with cancellable(token), pytest.raises(QueryCancelled):
        graph.query(spelled(OPERATORS[operator]))
    assert counted.peak == 0


class Alarm:
    """A clock that is asked at every look at the token, and is late from one of them on."""

    def __init__(self, late_from: float = float("inf")) -> None:
        self.looks = 0
        self._late_from = late_from

    def __call__(self) -> float:
        self.looks += 1
        return 2.0 if self.looks > self._late_from else 0.0


@pytest.mark.parametrize("access", [AccessMode.RESIDENT, AccessMode.INDEXED])
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_read_can_be_stopped_at_every_look_and_then_holds_nothing(
    root: Path, operator: str, access: AccessMode
) -> None:
    graph, counted = open_metered(root, access)
    query = spelled(OPERATORS[operator])
    expected = graph.query(query).arrow()
    whole = Alarm()
    with cancellable(CancelToken(1.0, clock=whole)):
        assert graph.query(query).arrow() == expected
    assert whole.looks > 2
    for late_from in range(1, whole.looks, 1 + whole.looks // 20):
        alarm = Alarm(late_from)
        with cancellable(CancelToken(1.0, clock=alarm)), pytest.raises(QueryTimeout):
            graph.query(query)
        assert alarm.looks == late_from + 1
        assert (counted.reads, counted.nbytes) == (0, 0)
    assert graph.query(query).arrow() == expected  # what was half made is not kept


HEAVY = {
    "sort": "match { $a: P $b: P $c: P $c.age < 6 } return { $a.name, $c.name } "
    "order { $a.town, $b.name }",
    "aggregate": "match { $a: P $b: P $c: P $c.age < 6 } "
    "return { $a.name, $b.name, count($c) as n }",
    "walk": "match { $a: P $a next{1,30} $b } return { count($b) as n }",
    "many conditions": "match { $a: P $b: P $c: P "
    + " ".join(f"$a.age != {-at}" for at in range(1, 300))
    + " } return { count($c) as n } ",
}


@pytest.mark.slow
@pytest.mark.parametrize("operator", HEAVY)
def test_no_step_of_a_heavy_read_takes_a_second(root: Path, operator: str) -> None:
    """By the time this thread worked, which no neighbour lengthens."""
    graph, _ = open_metered(root)
    longest = last = 0.0

    def clock() -> float:
        nonlocal longest, last
        now = time.thread_time()
        longest, last = max(longest, now - last) if last else 0.0, now
        return now

    token = CancelToken(20.0, clock=clock)
    with cancellable(token):
        try:
            graph.query(spelled(HEAVY[operator]))
        except QueryTimeout:
            """It was long enough."""
    assert longest < 1.0


# ── the command line ─────────────────────────────────────────────────────────────────────────────


def test_a_command_ends_at_its_deadline(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["query", "--store", str(root), "-e", spelled(ENDLESS), "--timeout", "0.3"]
    assert run(asked) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "stopped after 0.3 seconds" in told.err
    assert run([*asked[:-1], "0"]) == 2
    assert "above 0" in capsys.readouterr().err


def test_explain_takes_the_deadline_of_what_it_runs(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.gq").write_text(spelled(ENDLESS))
    asked = ["explain", "--store", str(root), "--query", str(tmp_path / "q.gq"), "--timeout", "0.3"]
    assert run([*asked, "--analyze"]) == 1
    assert "stopped after 0.3 seconds" in capsys.readouterr().err


# ── a server ─────────────────────────────────────────────────────────────────────────────────────


LIMIT_S = 600
"""Of a server whose reads end for another reason than the time that they took."""


@pytest.fixture(scope="module")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(root, tmp_path_factory.mktemp("served"), LIMIT_S) as found:
        yield found


@pytest.fixture(scope="module")
def strict(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(root, tmp_path_factory.mktemp("strict"), 1) as found:
        yield found


@contextmanager
def serving(root: Path, folder: Path, limit_s: int) -> Iterator[Running]:
    (folder / "server.yaml").write_text(
        "version: 1\nmetrics_name_graphs: true\n"
        f"limits: {{ query_seconds: {limit_s}, body_timeout_s: 1 }}"
    )
    (folder / "stored").mkdir()
    (folder / "stored" / "endless.gq").write_text(f"query endless() {{ {ENDLESS} }}")
    flags = Flags(
        folder / "server.yaml",
        (f"g={root}",),
        queries=(f"g={folder / 'stored'}",),
        unauthenticated=True,
    )
    with running(flags) as found:
        yield found


def gauge(server: Running, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=60).text
    found = re.search(rf'^omnigraph_{name}{{graph="g"}} (.*)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def wait_until(met: Callable[[], bool]) -> None:
    """Long enough for a busy machine, and long before the server would end a read."""
    began = time.monotonic()
    while not met():
        assert time.monotonic() - began < LIMIT_S / 5, "it did not come to that"
        REAL.sleep_ms(10)


def dial(server: Running, path: str, body: object) -> socket.socket:
    caller = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))
    data = json.dumps(body).encode()
    head = f"POST /graphs/g/{path} HTTP/1.1\r\nHost: [::1]\r\nContent-Type: application/json\r\n"
    caller.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    return caller


def is_idle(server: Running) -> bool:
    return gauge(server, "reads_inflight") == 0


def count_frames() -> int:
    gc.collect()
    return sum(isinstance(each, Frame) for each in gc.get_objects())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("query", {"query": spelled(HOARDING)}),
        ("read", {"query": spelled(ENDLESS)}),
        ("queries/endless", {}),
    ],
)
def test_a_read_ends_when_its_caller_hangs_up(server: Running, path: str, body: object) -> None:
    before = count_frames()
    caller = dial(server, path, body)
    wait_until(lambda: gauge(server, "reads_inflight") == 1)
    wait_until(lambda: gauge(server, "read_memory_bytes") > 0)
    caller.close()
    wait_until(lambda: is_idle(server))
    assert gauge(server, "read_memory_bytes") == 0
    wait_until(lambda: count_frames() <= before)


def test_a_read_ends_when_its_task_is_cancelled(server: Running) -> None:
    async def ask() -> None:
        async with omnigraph.aopen(server.url, graph="g") as graph:
            task = asyncio.create_task(graph.query(spelled(ENDLESS)))
            await asyncio.to_thread(wait_until, lambda: not is_idle(server))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(ask())
    wait_until(lambda: is_idle(server))


def test_abandoned_reads_do_not_slow_down_the_next(server: Running) -> None:
    callers = [dial(server, "query", {"query": spelled(ENDLESS)}) for _ in range(20)]
    wait_until(lambda: gauge(server, "reads_inflight") >= 1)
    for each in callers:
        each.close()
    wait_until(lambda: is_idle(server))
    with closing(omnigraph.connect(server.url, graph="g")) as graph:
        assert len(graph.query(spelled(OPERATORS["look up"]))) == 1


def test_the_server_has_a_limit_of_its_own(strict: Running) -> None:
    answer = httpx.post(
        f"{strict.url}/graphs/g/query", json={"query": spelled(ENDLESS)}, timeout=120
    )
    assert answer.status_code == 408
    told = answer.json()
    assert "code" not in told
    assert told["retryable"] is False
    assert told["resource_limit"] == {"resource": "query_seconds", "limit": 1}
    assert told["cause"] == {"code": "query_timeout", "facts": {"seconds": 1}}
    wait_until(lambda: is_idle(strict))


def test_a_caller_may_allow_less_and_not_more(strict: Running) -> None:
    with closing(omnigraph.connect(strict.url, graph="g")) as graph:
        with pytest.raises(QueryTimeout) as late:
            graph.query(spelled(ENDLESS), timeout=0.3)
        assert late.value.seconds == 0.3
        with pytest.raises(QueryTimeout) as later:
            graph.query(spelled(ENDLESS), timeout=60)
        assert later.value.seconds == 1
        with pytest.raises(UsageError, match="above 0"):
            graph.query(spelled(ENDLESS), timeout=0)
        with pytest.raises(QueryTimeout):
            graph.run_stored("endless", timeout=0.3)


def test_a_client_does_not_wait_for_a_server_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("omnigraph.sdk.remote.http.GRACE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with (
            closing(omnigraph.connect(f"http://127.0.0.1:{port}", graph="g")) as graph,
            pytest.raises(QueryTimeout),
        ):
            graph.query(spelled(ENDLESS), timeout=0.3)


def test_a_caller_that_takes_nothing_of_a_stream_is_let_go(server: Running) -> None:
    """Its connection is closed, and with it what the stream holds."""
    many = "match { $a: P $b: P } return { $a.name, $b.name, $a.town, $b.town }"
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        data = json.dumps({"query": spelled(many)}).encode()
        head = f"POST /graphs/g/query HTTP/1.1\r\nHost: [::1]\r\nContent-Length: {len(data)}\r\n"
        caller.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + data)
        inflight = "omnigraph_requests_inflight 1.0"  # the one that asks

        def is_over() -> bool:
            return inflight in httpx.get(f"{server.url}/metrics", timeout=60).text

        wait_until(lambda: not is_over())
        wait_until(is_over)
        caller.settimeout(120)
        with suppress(ConnectionResetError):
            while caller.recv(65536):
                """Half of the answer is still on its way."""
