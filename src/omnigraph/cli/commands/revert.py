"""`omnigraph revert` and `omnigraph cherry-pick`: the changes of single commits."""

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.graphs import find_writer, open_client
from omnigraph.cli.merges import (
    Conflicts,
    Detect,
    DryRun,
    Into,
    OnConflict,
    Resolutions,
    check_conflict_file,
    read_strategies,
    show_merge,
)
from omnigraph.cli.options import GraphUri, IdempotencyKey, Json, Message
from omnigraph.cli.progress import ShowProgress, showing
from omnigraph.cli.render import print_target
from omnigraph.errors import UsageError
from omnigraph.sdk.history import PickOptions

_Commits = Annotated[
    list[str], typer.Argument(metavar="COMMIT...", help="Commits, by id or tag, in this order.")
]
_Mainline = Annotated[
    int | None,
    typer.Option(min=1, max=2, help="For a merge: the parent from which its changes count."),
]


def revert(
    context: typer.Context,
    commits: _Commits,
    uri: GraphUri = None,
    *,
    into: Into = "main",
    mainline: _Mainline = None,
    detect: Detect = "row",
    on_conflict: OnConflict = None,
    dry_run: DryRun = False,
    conflicts: Conflicts = None,
    resolutions: Resolutions = None,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Undo what commits changed: one new commit for each. Later changes of other rows stay.

    A row that was changed again since is a conflict, as in a merge: nothing changes, and
    --on-conflict or a file of resolutions decides. If a commit of several conflicts, those before
    it stay reverted. A dry run compares each commit with the branch as it is now.
    """
    options: PickOptions = {
        "into": into,
        "mainline": mainline,
        "detect": detect,
        "on_conflict": read_strategies(on_conflict),
        "dry_run": dry_run,
        "resolutions": resolutions,
        "message": message,
        "idempotency_key": idempotency_key,
    }
    _pick(
        context,
        uri,
        commits,
        options,
        verbs=("revert", "reverted"),
        conflicts=conflicts,
        progress=progress,
        as_json=as_json,
    )


def cherry_pick(
    context: typer.Context,
    commits: _Commits,
    uri: GraphUri = None,
    *,
    into: Into = "main",
    mainline: _Mainline = None,
    detect: Detect = "row",
    on_conflict: OnConflict = None,
    dry_run: DryRun = False,
    conflicts: Conflicts = None,
    resolutions: Resolutions = None,
    message: Message = None,
    idempotency_key: IdempotencyKey = None,
    progress: ShowProgress = None,
    as_json: Json = False,
) -> None:
    """Apply what commits of other branches changed: one new commit for each.

    Conflicts are handled as by a merge. If a commit of several conflicts, those before it stay
    applied. A dry run compares each commit with the branch as it is now.
    """
    options: PickOptions = {
        "into": into,
        "mainline": mainline,
        "detect": detect,
        "on_conflict": read_strategies(on_conflict),
        "dry_run": dry_run,
        "resolutions": resolutions,
        "message": message,
        "idempotency_key": idempotency_key,
    }
    _pick(
        context,
        uri,
        commits,
        options,
        verbs=("cherry-pick", "cherry-picked"),
        conflicts=conflicts,
        progress=progress,
        as_json=as_json,
    )


def _pick(
    context: typer.Context,
    uri: str | None,
    commits: list[str],
    options: PickOptions,
    *,
    verbs: tuple[str, str],
    conflicts: Path | None,
    progress: bool | None,
    as_json: bool,
) -> None:
    dry_run, detect = options["dry_run"], options["detect"]
    check_conflict_file(conflicts, dry_run=dry_run)
    single = (conflicts, options["resolutions"], options["idempotency_key"])
    if len(commits) > 1 and any(each is not None for each in single):
        raise UsageError("a file of conflicts and an idempotency key are of one commit; name one")
    graph = open_client(uri, context.obj, read_only=dry_run)
    options["actor"] = find_writer(graph, context.obj)
    if not dry_run:
        print_target(verbs[0], graph.uri, context.obj)
    pick = graph.revert if verbs[0] == "revert" else graph.cherry_pick
    for commit in commits:
        with showing(context.obj, wanted=progress):
            result = pick(commit, **options)
        done = f"{f'would {verbs[0]}' if dry_run else verbs[1]} {commit} on {result.target}"
        show_merge(result, done, detect=detect, conflicts=conflicts, as_json=as_json)
