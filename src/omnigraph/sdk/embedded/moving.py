"""Moving and cloning embedded graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.engine import opening
from omnigraph.engine.settings import Settings
from omnigraph.ids import CommitId, parse_branch
from omnigraph.sdk.choices import parse_choice
from omnigraph.storage.durability import Durability

if TYPE_CHECKING:
    from omnigraph.commit.relocation import RelocateResult
    from omnigraph.engine.maintain.clone import CloneResult


def relocate(
    uri: str | Path, *, storage_options: Mapping[str, str] | None = None
) -> RelocateResult:
    """Make every branch of a graph that was moved read its files from `uri`.

    `omnigraph.open` does this before it opens a moved graph for writing. Raises GraphNotFound,
    GraphIncomplete, LeaseHeld while another process writes there, GraphRelocated.
    """
    return opening.relocate_graph(
        str(uri), settings=Settings(storage_options=dict(storage_options or {}))
    )


def clone(
    source: str | Path,
    target: str | Path,
    *,
    branch: str | Sequence[str] | None = None,
    at: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    target_storage_options: Mapping[str, str] | None = None,
    durability: Durability | str = Durability.DURABLE,
) -> CloneResult:
    """Copy a graph with its history to another place, on a disk or in a bucket.

    Other processes may write to the source meanwhile; the clone shows what was committed when it
    began. `branch` names one or more branches: only these, main and the branches that they were
    created from are copied. `at` names a commit: the clone ends with it. `storage_options` are
    those of the source, and of the target unless `target_storage_options` are given. A clone that
    was interrupted leaves no graph; the same call continues it.

    Raises GraphNotFound, GraphExists, GraphIncomplete, CloneRunning, BranchNotFound,
    CommitNotFound, VersionNotFound, UsageError.
    """
    from omnigraph.engine.maintain.clone_plan import CloneRequest

    named = () if branch is None else (branch,) if isinstance(branch, str) else tuple(branch)
    options = dict(storage_options or {})
    chosen = parse_choice(Durability, durability, "durability")
    others = options if target_storage_options is None else dict(target_storage_options)
    return opening.clone_graph(
        str(source),
        str(target),
        CloneRequest(
            tuple(parse_branch(each) for each in named), None if at is None else CommitId(at)
        ),
        settings=Settings(storage_options=options, durability=chosen),
        target_settings=Settings(storage_options=others, durability=chosen),
    )
