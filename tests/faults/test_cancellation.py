"""Ctrl-C at any moment: nothing half done, no note, no lease, nobody in line (D25)."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from omnigraph.effects import REAL
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.ids import MAIN, BranchName
from omnigraph.testing.failpoints import PATIENCE_S, PUBLISH, At, Pause, Trigger
from omnigraph.testing.faults import When
from support.breaking import (
    CASCADE,
    EVERY,
    INSERT,
    PAIR,
    SIDE,
    UPDATE,
    Ask,
    check_lasting,
    check_whole,
    find_orphans,
    open_living,
    read_content,
    stores_at,
)
from support.scenes import set_write

writes = pytest.mark.parametrize(
    "ask",
    [
        pytest.param(CASCADE, id="delete with cascade"),
        pytest.param(PAIR, id="insert into two tables"),
    ],
)
branches = pytest.mark.parametrize("branch", [MAIN, SIDE])


@writes
@branches
def test_an_interrupt_at_any_step_leaves_nothing_behind(
    tmp_path: Path, ask: Ask, branch: BranchName
) -> None:
    stage = set_write(ask, branch, tmp_path / "g")
    steps: list[str] = []
    open_living(stage.root).ask(EVERY, branch)
    for number in count():
        stage.reset()
        seen: list[str] = []

        def observe(step: str, seen: list[str] = seen, number: int = number) -> None:
            seen.append(step)
            if len(seen) == number + 1:
                raise KeyboardInterrupt

        graph = open_living(stage.root, observe=observe)
        try:
            graph.ask(ask, branch)
        except KeyboardInterrupt:
            steps.append(seen[number])
        else:
            break
        # Once it is visible it stays visible; nothing of it may be left to do either way.
        assert check_whole(stage.root, stage.allowed) == (seen[number] == "disarm")
        assert list(find_orphans(stores_at(stage.root))) == []
        assert graph.refresh() == ()
        graph.ask(EVERY, branch)
        check_lasting(stage.root)
    assert [steps[0], steps[1], *steps[-2:]] == ["prepare", "arm", "publish", "disarm"]
    assert steps[2:-2] == sorted(steps[2:-2]), "tables move in the order of their names"


@dataclass
class InterruptAt:
    """Ctrl-C at the n-th write that is not about leases."""

    step: int
    when: When
    seen: int = 0

    def before(self, call: str, *, is_write: bool) -> None:
        self.seen += is_write and not call.startswith("volatile.")
        self._interrupt_if(call, When.BEFORE, is_write=is_write)

    def after(self, call: str, *, is_write: bool) -> None:
        self._interrupt_if(call, When.AFTER, is_write=is_write)

    def _interrupt_if(self, call: str, when: When, *, is_write: bool) -> None:
        is_due = is_write and self.seen == self.step and self.when is when
        if is_due and not call.startswith("volatile."):
            self.step = 0
            raise KeyboardInterrupt(call)


@pytest.mark.slow
@writes
@branches
@pytest.mark.parametrize("when", When)
def test_an_interrupt_at_any_write_leaves_all_or_nothing(
    tmp_path: Path, ask: Ask, branch: BranchName, when: When
) -> None:
    stage = set_write(ask, branch, tmp_path / "g")
    outcomes = []
    for step in count(1):
        stage.reset()
        graph = open_living(stage.root, InterruptAt(step, when))
        try:
            graph.ask(ask, branch)
        except KeyboardInterrupt:
            outcomes.append(check_whole(stage.root, stage.allowed))
        else:
            break
        assert list(find_orphans(stores_at(stage.root))) == []
        assert graph.refresh() == ()
        graph.ask(EVERY, branch)
    assert outcomes == sorted(outcomes)
    assert outcomes[0] == 0


# ── while waiting ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return set_write(INSERT, MAIN, tmp_path / "g").root


@contextmanager
def interrupted_once(is_waiting: Callable[[], bool]) -> Iterator[None]:
    """Press Ctrl-C for the main thread as soon as it waits."""
    main = threading.main_thread().ident
    assert main is not None
    is_over = threading.Event()

    def press() -> None:
        for _ in range(2000):
            if is_waiting() or is_over.is_set():
                break
            REAL.sleep_ms(5)
        if not is_over.is_set():
            REAL.sleep_ms(20)
            signal.pthread_kill(main, signal.SIGINT)

    # A process that was started in the background ignores Ctrl-C, tests included.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    presser = threading.Thread(target=press)
    presser.start()
    try:
        yield
    finally:
        is_over.set()
        presser.join()
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("where", ["queue", "lease line"])
def test_an_interrupt_while_waiting_gives_the_place_in_line_up(root: Path, where: str) -> None:
    pause = Pause()
    trigger = Trigger(At(PUBLISH), pause)
    holder = open_living(root, observe=trigger.observe)
    waiter = holder if where == "queue" else open_living(root)
    line = holder.context.queues._queues

    def is_waiting() -> bool:
        if where == "queue":
            return any(len(each) > 1 for each in list(line.values()))
        found = (root / "__leases").rglob("*")
        return any(each.is_file() and each.suffix != ".json" for each in found)

    with ThreadPoolExecutor(1) as pool:
        holding: Future[MutationResult] = pool.submit(holder.ask, UPDATE)
        pause.await_arrival()
        with pytest.raises(KeyboardInterrupt), interrupted_once(is_waiting):
            waiter.ask(INSERT if where == "queue" else PAIR)
        pause.release()
        assert holding.result(PATIENCE_S).commit is not None
    assert line == {}
    check_whole(root, [read_content(root)])
    waiter.ask(EVERY)
    check_lasting(root)
