"""Verdicts on unfinished operations: the specification's tables, row by row."""

from collections.abc import Sequence

import pytest

from omnigraph.commit.compat.old_sidecar import OldMode, OldPin
from omnigraph.commit.recovery.classify import (
    OPERATION,
    RECOVERS,
    Decision,
    PinClass,
    classify,
    classify_by_number,
    decide,
    find_effective,
    find_restore_version,
    operation_of,
)
from omnigraph.commit.recovery.sidecar import PinnedWrite
from omnigraph.ids import MAIN, OperationId, TableKey, Version
from omnigraph.storage.tables import TransactionKind, TransactionRecord

KEY = TableKey("node:Person")
OURS = OperationId("01OURS")

Vector = tuple[int, int, int | None, int, int]
"""Expected, post-commit, confirmed, head, shown."""

N, P = PinClass.NO_MOVEMENT, PinClass.ROLLED_PAST
ONE, MANY = PinClass.UNEXPECTED_ONE, PinClass.UNEXPECTED_MANY
INCOMPLETE, INVARIANT = PinClass.INCOMPLETE, PinClass.INVARIANT_VIOLATION
DRIFTED = PinClass.DRIFTED

VECTORS: list[tuple[OldMode, Vector, PinClass]] = [
    (OldMode.STRICT, (5, 6, None, 5, 5), N),
    (OldMode.STRICT, (5, 6, None, 6, 5), P),
    (OldMode.STRICT, (5, 7, None, 6, 5), ONE),
    (OldMode.STRICT, (4, 6, None, 6, 5), ONE),
    (OldMode.STRICT, (5, 6, None, 7, 5), MANY),
    (OldMode.STRICT, (5, 6, None, 8, 5), MANY),
    (OldMode.STRICT, (5, 6, None, 3, 5), INVARIANT),
    (OldMode.STRICT, (5, 6, 6, 7, 5), MANY),
    (OldMode.STRICT, (5, 6, None, 6, 6), N),
    (OldMode.STRICT, (5, 6, None, 7, 6), ONE),
    (OldMode.STRICT, (5, 5, None, 6, 5), ONE),
    (OldMode.LOOSE, (5, 6, None, 6, 5), P),
    (OldMode.LOOSE, (5, 6, None, 8, 5), P),
    (OldMode.LOOSE, (5, 9, None, 6, 5), P),
    (OldMode.LOOSE, (4, 5, None, 6, 5), ONE),
    (OldMode.LOOSE, (4, 5, None, 9, 5), MANY),
    (OldMode.LOOSE, (5, 6, None, 5, 5), N),
    (OldMode.LOOSE, (5, 6, None, 3, 5), INVARIANT),
    (OldMode.CONFIRMED, (5, 6, None, 8, 5), INCOMPLETE),
    (OldMode.CONFIRMED, (5, 6, 8, 8, 5), P),
    (OldMode.CONFIRMED, (5, 6, 8, 9, 5), MANY),
    (OldMode.CONFIRMED, (5, 6, 8, 7, 5), MANY),
    (OldMode.CONFIRMED, (4, 5, 8, 8, 5), MANY),
    (OldMode.CONFIRMED, (5, 6, 8, 5, 5), N),
    (OldMode.CONFIRMED, (5, 6, None, 5, 5), N),
    (OldMode.CONFIRMED, (5, 6, None, 3, 5), INVARIANT),
]


@pytest.mark.parametrize(("mode", "vector", "verdict"), VECTORS)
def test_old_sidecars_are_judged_by_numbers(
    mode: OldMode, vector: Vector, verdict: PinClass
) -> None:
    expected, post_commit, confirmed, head, shown = vector
    pin = OldPin(
        KEY,
        "path",
        Version(expected),
        Version(post_commit),
        None if confirmed is None else Version(confirmed),
        MAIN,
    )
    assert classify_by_number(mode, pin, head=head, shown=shown) is verdict


DATA, INDEX = TransactionKind.DATA, TransactionKind.INDEX


def made(*transactions: tuple[str | None, TransactionKind]) -> tuple[TransactionRecord, ...]:
    return tuple(
        TransactionRecord(version, kind, uuid, {})
        for version, (uuid, kind) in enumerate(transactions, 6)
    )


def write(*uuids: str, confirmed: int | None = None) -> PinnedWrite:
    return PinnedWrite(
        KEY,
        "nodes/x",
        MAIN,
        Version(5),
        is_fork=False,
        transactions=uuids,
        confirmed=None if confirmed is None else Version(confirmed),
    )


UNREADABLE = TransactionKind.UNREADABLE
COMPACTION = TransactionKind.COMPACTION


@pytest.mark.parametrize(
    ("pinned", "since", "verdict"),
    [
        (write("a"), made(), N),
        (write("a"), made(("a", DATA)), P),
        (write("a", "b"), made(("a", DATA), ("b", DATA)), P),
        (write("a", "b"), made(("a", DATA)), INCOMPLETE),
        (write("a", "b"), made(("b", DATA), ("a", DATA)), INCOMPLETE),
        (write("a"), made(("a", DATA), ("x", INDEX)), P),
        (write("a"), made(("x", INDEX), ("a", DATA)), P),
        (write("a", "b"), made(("a", DATA), (None, UNREADABLE), ("b", DATA)), P),
        (write("a"), made(("x", INDEX)), N),
        (write("a"), made(("x", TransactionKind.CONFIG), (None, COMPACTION)), N),
        (write("a"), made(("x", DATA)), DRIFTED),
        (write("a"), made(("a", DATA), ("x", DATA)), DRIFTED),
        (write("a"), made(("a", DATA), ("x", TransactionKind.RESTORE)), DRIFTED),
        (write(), made(), N),
        (write(), made((None, COMPACTION), (None, COMPACTION)), INCOMPLETE),
        (write(confirmed=7), made((None, COMPACTION), (None, COMPACTION)), P),
        (write(confirmed=6), made((None, COMPACTION), (None, COMPACTION)), INCOMPLETE),
        (write(confirmed=7), made((None, COMPACTION), ("x", DATA)), DRIFTED),
    ],
)
def test_our_sidecars_are_judged_by_the_transactions_they_name(
    pinned: PinnedWrite, since: Sequence[TransactionRecord], verdict: PinClass
) -> None:
    assert classify(pinned, OURS, shown=5, since=since) is verdict


def test_a_recovery_that_died_on_its_way_back_is_continued_that_way() -> None:
    restored = TransactionRecord(7, TransactionKind.RESTORE, "r", {RECOVERS: OURS})
    since = (*made(("a", DATA)), restored)
    assert classify(write("a"), OURS, shown=5, since=since) is INCOMPLETE


def test_a_table_that_others_published_meanwhile_is_not_taken_for_ours() -> None:
    assert classify(write("a"), OURS, shown=6, since=()) is N
    assert classify(write("a"), OURS, shown=6, since=made(("a", DATA))) is MANY


@pytest.mark.parametrize(
    ("classes", "decision"),
    [
        ([], Decision.ROLL_FORWARD),
        ([P, P], Decision.ROLL_FORWARD),
        ([P, N], Decision.ROLL_BACK),
        ([N], Decision.ROLL_BACK),
        ([P, ONE], Decision.ROLL_BACK),
        ([P, MANY], Decision.ROLL_BACK),
        ([P, INCOMPLETE], Decision.ROLL_BACK),
        ([P, N, INVARIANT], Decision.ABORT),
    ],
)
def test_all_tables_go_one_way(classes: list[PinClass], decision: Decision) -> None:
    assert decide(classes) is decision


# ── what a table holds, and what can be taken out of it ──────────────────────────────────────────


def step(version: int, name: str, restores: int | None = None) -> TransactionRecord:
    """A transaction by its first letter: ours, foreign, maintenance, or a restore."""
    kind = {"m": INDEX, "r": TransactionKind.RESTORE}.get(name[0], DATA)
    properties = {"o": {OPERATION: OURS}, "r": {RECOVERS: OURS}}.get(name[0], {})
    return TransactionRecord(version, kind, name, properties, restores)


@pytest.mark.parametrize(
    ("since", "held"),
    [
        ("", ""),
        ("o", "o"),
        ("o r5", ""),
        ("f o r6", "f"),
        ("f o r6 m", "f m"),
        ("o r5 f", "f"),
        ("o f r5 f r7", "o f"),
        ("o r3", "o r3"),
    ],
)
def test_a_restore_takes_out_what_came_after_the_version_it_brings_back(
    since: str, held: str
) -> None:
    assert " ".join(each.uuid or "" for each in find_effective(5, history(since))) == held


def history(names: str) -> tuple[TransactionRecord, ...]:
    return tuple(
        step(version, name, int(name[1:]) if name[0] == "r" else None)
        for version, name in enumerate(names.split(), 6)
    )


@pytest.mark.parametrize(
    ("held", "below"),
    [
        ("", None),
        ("f", None),
        ("m", None),
        ("o", 5),
        ("o o", 5),
        ("f o", 6),
        ("m o", 6),
        ("f o m", 6),
        ("f m o o", 7),
        ("o f", None),
        ("o f o", 7),
        ("o f m", None),
    ],
)
def test_what_is_undone_goes_back_to_right_below_it_and_never_below_what_is_foreign(
    held: str, below: int | None
) -> None:
    def is_ours(transacted: TransactionRecord) -> bool:
        return operation_of(transacted) == OURS

    assert find_restore_version(5, history(held), is_ours) == below
