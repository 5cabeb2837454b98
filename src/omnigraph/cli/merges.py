"""Merges, reverts and cherry-picks on the command line: sides, conflict files, results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.exits import Exit
from omnigraph.cli.render import clash_lines, print_json, print_line, print_note
from omnigraph.errors import FileUnreadable, UsageError
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.engine.merge.run import MergeResult

Into = Annotated[str, typer.Option(help="The branch that is changed.")]
Detect = Annotated[str, typer.Option(help="The unit of a conflict: row or property.")]
OnConflict = Annotated[
    list[str] | None, typer.Option(help="ours or theirs; TYPE=ours for one type. Repeatable.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would happen; exit with 1 on conflicts.")
]
Conflicts = Annotated[
    Path | None,
    typer.Option(help="With --dry-run: write the conflicts to this file, to be resolved."),
]
Resolutions = Annotated[
    Path | None, typer.Option(help="A file of conflicts with the decisions filled in.")
]


def read_strategies(given: list[str] | None) -> dict[str, str]:
    """The winning side by type name; the empty name stands for every type."""
    split = (each.partition("=") if "=" in each else ("", "", each) for each in given or [])
    return {name: side for name, _, side in split}


def check_conflict_file(conflicts: Path | None, *, dry_run: bool) -> None:
    if conflicts is not None and not dry_run:
        raise UsageError("--conflicts writes what a --dry-run found; add --dry-run")


def show_merge(
    result: "MergeResult",
    done: str,
    *,
    detect: str,
    conflicts: Path | None,
    as_json: bool,
) -> None:
    """Print a result, write its conflicts if a file is named, and exit with 1 if it has some.

    `done` says what was done, or would be, as in `merged work into main`.
    """
    from omnigraph.sdk.documents import merge_document

    if conflicts is not None:
        _write_conflicts(conflicts, result, detect)
    if as_json:
        print_json(merge_document(result))
    else:
        print_line(f"{done}{_describe(result)}")
        for key, each in result.counts.items():
            print_line(f"  {key}: {each}")
        for line in clash_lines(result.conflicts):
            print_line(line)
    if result.conflicts:  # only a dry run returns them
        raise typer.Exit(Exit.FAILED)


def _describe(result: "MergeResult") -> str:
    """How it ended, and the commit that it made."""
    if result.conflicts:
        return f": {counted(len(result.conflicts), 'conflict')}"
    if result.outcome.value == "already_up_to_date":
        return ": already up to date"
    how = " (fast-forward)" if result.outcome.value == "fast_forward" else ""
    return how if result.commit is None else f"{how}: commit {result.commit.id}"


def _write_conflicts(path: Path, result: "MergeResult", detect: str) -> None:
    from omnigraph.sdk.embedded.merging import conflict_file

    try:
        path.write_text(conflict_file(result, detect), encoding="utf-8")
    except OSError as error:
        raise FileUnreadable(str(path), reason=error.strerror or str(error)) from error
    print_note(f"{counted(len(result.conflicts), 'conflict')} written to {path}")
