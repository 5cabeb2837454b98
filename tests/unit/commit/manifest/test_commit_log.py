"""A key finds the commit it was given to, in the log that is asked and in no other."""

import pytest
from hypothesis import given, strategies as st

from omnigraph.commit.manifest.commit_log import CommitLog
from omnigraph.commit.manifest.model import read_manifest
from omnigraph.commit.manifest.records import UPKEEP, Commit, Extension, Idempotency
from omnigraph.commit.manifest.updates import encode_commits
from omnigraph.errors import ManifestCorrupt
from omnigraph.ids import MAIN, BranchName, CommitId, Version

SIDE = BranchName("side")


def commit_of(
    number: int, key: str | None, actor: str | None = None, branch: BranchName = MAIN
) -> Commit:
    given_key = None if key is None else Idempotency(key, "hash")
    extension = Extension(idempotency=given_key)
    return Commit(CommitId(f"C{number}"), branch, Version(number), None, None, actor, 1, extension)


def log_of(*commits: Commit) -> CommitLog:
    rows = encode_commits(commits, branch=MAIN, head=commits[-1])
    return read_manifest(rows, branch=MAIN, version=Version(1)).log


def after(log: CommitLog, *commits: Commit) -> CommitLog:
    rows = log_of(*commits).rows
    return log.extended(rows, rows.slice(0, 0), commits[-1])


def found(log: CommitLog, key: str, actor: str | None = None) -> str | None:
    commit = log.find_key(key, actor=actor, branch=MAIN)
    return None if commit is None else commit.id


def test_a_key_is_of_one_actor_and_one_branch() -> None:
    log = log_of(commit_of(1, "k", "ada"), commit_of(2, "k", "bo"), commit_of(3, "k", "cy", SIDE))
    assert found(log, "k", "ada") == "C1"
    assert found(log, "k", "bo") == "C2"
    assert found(log, "k", "cy") is None, "it was inherited"
    assert found(log, "k") is None
    assert found(log, "other", "ada") is None


def test_logs_that_follow_know_the_keys_of_both() -> None:
    log = log_of(commit_of(1, "old"))
    unasked = after(log, commit_of(2, "new"))
    assert (found(unasked, "old"), found(unasked, "new")) == ("C1", "C2")
    asked = after(unasked, commit_of(3, "newer"))
    assert (found(asked, "old"), found(asked, "new"), found(asked, "newer")) == ("C1", "C2", "C3")
    assert found(unasked, "newer") is None
    assert asked.idempotency_index is unasked.idempotency_index, "read once"


def test_what_was_planned_and_refused_is_not_found_by_what_landed_instead() -> None:
    log = log_of(commit_of(1, "k"))
    assert found(log, "k") == "C1"
    refused = after(log, commit_of(2, "mine"))
    landed = after(log, commit_of(3, "theirs"))
    assert (found(refused, "mine"), found(refused, "theirs")) == ("C2", None)
    assert (found(landed, "mine"), found(landed, "theirs")) == (None, "C3")
    again = after(landed, commit_of(2, "mine"))
    assert (found(again, "mine"), found(again, "theirs")) == ("C2", "C3")


@given(st.lists(st.one_of(st.none(), st.text(max_size=8)), min_size=1, max_size=6), st.data())
def test_every_key_is_found_whatever_it_is_made_of(
    keys: list[str | None], data: st.DataObject
) -> None:
    commits = [commit_of(number, key) for number, key in enumerate(keys)]
    cut = data.draw(st.integers(1, len(commits)))
    log = log_of(*commits[:cut])
    if data.draw(st.booleans()):
        found(log, "asked")
    if commits[cut:]:
        log = after(log, *commits[cut:])
    for key in {each for each in keys if each is not None}:
        assert found(log, key) == f"C{keys.index(key)}"


def test_a_commit_that_is_its_own_ancestor_is_damage_and_no_endless_walk() -> None:
    upkeep = Extension(recovery={})
    first = Commit(CommitId("C1"), MAIN, Version(1), CommitId("C2"), None, UPKEEP, 1, upkeep)
    second = Commit(CommitId("C2"), MAIN, Version(2), CommitId("C1"), None, UPKEEP, 2, upkeep)
    rows = encode_commits([first, second], branch=MAIN, head=second)
    manifest = read_manifest(rows, branch=MAIN, version=Version(1))
    with pytest.raises(ManifestCorrupt, match="its own ancestors"):
        _ = manifest.log.schema_hash
    with pytest.raises(ManifestCorrupt, match="its own ancestors"):
        manifest.check_head(CommitId("C9"))
