r"""The history of a graph as text: a log, one line for each commit, or the lines drawn as a graph.

A drawing has one column for each line of history. The commits come children before parents. Each
column waits for one commit; a column ends in another one that waits for the same commit:

    *   a merge: a second column begins at its right
    |\
    | * a commit of the merged branch
    |/
    *   the commit at which the two lines parted
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from omnigraph.cli.terminal import Ink, paint
from omnigraph.ids import CommitId

if TYPE_CHECKING:
    from omnigraph.commit.manifest.records import Commit

DRAW: Final = "--draw"
"""Another name of the `--graph` of the log, which every other command takes for a graph's id."""

Heads = Mapping[CommitId, Sequence[str]]
"""The branches whose head a commit is."""


def log_lines(commits: "Sequence[Commit]", heads: Heads) -> Iterator[str]:
    """A paragraph for each commit."""
    for number, commit in enumerate(commits):
        if number:
            yield ""
        yield from _paragraph(commit, heads)


def _paragraph(commit: "Commit", heads: Heads) -> Iterator[str]:
    yield f"{paint(f'commit {commit.id}', Ink.NAME)}{_names(commit, heads)}"
    if commit.merged_parent is not None:
        yield f"merge: {commit.parent} {commit.merged_parent}"
    yield f"time: {iso_seconds(commit.created_at)}"
    yield f"actor: {commit.actor or '(none)'}"
    if commit.row_counts is not None:
        yield f"changes: {commit.row_counts}"
    if commit.message is not None:
        yield ""
        yield from (f"    {line}" for line in commit.message.splitlines() or [""])


def short_lines(commits: "Sequence[Commit]", heads: Heads) -> list[str]:
    """One line for each commit: id, time, actor, counts, heads, first line of the message."""
    rows = [
        (
            commit.id,
            iso_seconds(commit.created_at),
            commit.actor or "-",
            "-" if commit.row_counts is None else str(commit.row_counts),
        )
        for commit in commits
    ]
    texts = [_subject(commit, heads) for commit in commits]
    lines = [f"{line}  {text}".rstrip() for line, text in zip(aligned(rows), texts, strict=True)]
    return [
        paint(commit.id, Ink.NAME) + line.removeprefix(commit.id)
        for commit, line in zip(commits, lines, strict=True)
    ]


def graph_lines(commits: "Sequence[Commit]", heads: Heads) -> Iterator[str]:
    """The same lines, beside a drawing. `commits` come children before parents."""
    waiting: list[CommitId] = []
    known = {commit.id for commit in commits}
    for commit, text in zip(commits, short_lines(commits, heads), strict=True):
        if commit.id not in waiting:
            waiting.append(commit.id)
        at = waiting.index(commit.id)
        marks = ["*" if place == at else "|" for place in range(len(waiting))]
        yield f"{' '.join(marks)}  {text}"
        parents = [each for each in commit.parents if each in known]
        yield from _follow(waiting, at, parents)
        for parent in parents:
            yield from _join(waiting, parent)


def _join(waiting: list[CommitId], commit_id: CommitId) -> Iterator[str]:
    """Let all columns that wait for one commit end in the first of them."""
    at = waiting.index(commit_id)
    while waiting.count(commit_id) > 1:
        last = len(waiting) - 1 - waiting[::-1].index(commit_id)
        across = "".join("_|" for _ in range(at + 1, last))
        after = " /" * (len(waiting) - 1 - last)
        yield f"{'| ' * at}|{across}/{after}"
        del waiting[last]


def _follow(waiting: list[CommitId], at: int, parents: Sequence[CommitId]) -> Iterator[str]:
    """Let the column of a commit wait for its parents: none, one, or two in two columns."""
    after = len(waiting) - 1 - at
    waiting[at : at + 1] = parents
    if not parents and after:
        yield f"{'| ' * at} {'/ ' * after}".rstrip()
    if len(parents) > 1:
        yield "| " * at + "|\\" + " \\" * after


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells in columns, two spaces apart; no spaces at the end."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def _names(commit: "Commit", heads: Heads) -> str:
    found = heads.get(commit.id, ())
    return f" ({', '.join(paint(each, Ink.ADDED) for each in found)})" if found else ""


def _subject(commit: "Commit", heads: Heads) -> str:
    lines = (commit.message or "").splitlines()
    return f"{_names(commit, heads)} {lines[0] if lines else ''}".strip()


def iso_seconds(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_of_micros(micros: int) -> str:
    return iso_seconds(datetime.fromtimestamp(micros // 1_000_000, UTC))


_UNITS: tuple[tuple[int, str], ...] = (
    (365 * 86_400, "year"),
    (30 * 86_400, "month"),
    (7 * 86_400, "week"),
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
)


def age(time: datetime, now_ms: int) -> str:
    """How long ago, in the largest unit that fits: `3 hours ago`."""
    seconds = int(now_ms / 1000 - time.timestamp())
    for size, unit in _UNITS:
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "now"


def mark_drawing(arguments: Sequence[str]) -> list[str]:
    """Tell the `--graph` that draws a log from the one that names a graph of a server.

    It draws if no value follows it, or if neither `--server` nor `--profile` is given. The id of a
    graph can always be written as `--graph=ID`.
    """
    given = list(arguments)
    is_log = "log" in given or {"commit", "list"} <= {*given}
    if not is_log:
        return given
    names = {each.partition("=")[0] for each in given}
    is_served = bool(names & {"--server", "--profile"})
    return [
        DRAW if word == "--graph" and not (is_served and _is_value(follower)) else word
        for word, follower in zip(given, [*given[1:], None], strict=True)
    ]


def _is_value(word: str | None) -> bool:
    return word is not None and not word.startswith("-")
