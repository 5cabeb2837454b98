"""Replies that get lost, stores that fail, races that are lost: what the publisher is told."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.model import Manifest
from omnigraph.commit.manifest.publish import BUDGET, Publication, publish
from omnigraph.commit.manifest.records import Extension, Idempotency
from omnigraph.commit.manifest.snapshot import snapshot_at_commit
from omnigraph.errors import (
    AlreadyDone,
    Contention,
    ExpectedVersionMismatch,
    Fenced,
    OutcomeUnknown,
    StorageFailure,
    UpdateRefused,
)
from omnigraph.ids import MAIN, CommitId, TableKey, Version
from omnigraph.storage.lance.swap import SEALED_ROWS
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import ManifestSwap, Mark, TableSettings
from omnigraph.testing.faults import When, watch_stores
from omnigraph.testing.invariants import check_manifests
from support.publishing import Place, chain, lineage_only, new_intent, pin_at

A = TableKey("node:A")
SWAP = "tables.single_step.swap_rows"


@dataclass
class Trouble:
    """Does something around the first `times` calls of one kind. Others pass."""

    call: str
    when: When
    act: Callable[[], None]
    times: int = 1
    calls: list[str] = field(default_factory=list)

    def before(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - any call
        self.calls.append(call)
        self._act_if(call, When.BEFORE)

    def after(self, call: str, *, is_write: bool) -> None:  # noqa: ARG002 - any call
        self._act_if(call, When.AFTER)

    def _act_if(self, call: str, when: When) -> None:
        if call == self.call and when is self.when and self.times:
            self.times -= 1
            self.act()


def fail() -> None:
    raise StorageFailure("reach", subject="the store", reason="the connection was reset")


def then(*acts: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for act in acts:
            act()

    return run


def publisher(place: Place, make: Callable[[], Publication] = lineage_only) -> Callable[[], None]:
    """Somebody else, with handles of their own."""

    def run() -> None:
        stores = place.open()
        publish(stores, Bases(stores), make())

    return run


def manifest_of(place: Place) -> Manifest:
    return Bases(place.open()).current(MAIN).manifest


def times_in_history(place: Place, commit_id: CommitId) -> int:
    assert check_manifests(place.open()) == []
    return [each.id for each in manifest_of(place).log.commits].count(commit_id)


@pytest.fixture(params=[False, True], ids=["small", "sealing"])
def worn_place(request: pytest.FixtureRequest, place: Place) -> Place:
    """A graph whose next publish writes all rows again, and one that seals those it finds."""
    if request.param:
        stores = place.open()
        publish(stores, Bases(stores), chain(SEALED_ROWS))
    return place


# ── lost replies ─────────────────────────────────────────────────────────────────────────────────


def test_a_commit_that_landed_and_was_reported_failed_is_recognised(worn_place: Place) -> None:
    trouble = Trouble(SWAP, When.AFTER, fail)
    stores = watch_stores(worn_place.open(), trouble)
    publication = Publication(MAIN, (new_intent(),), (pin_at(A, 2),), expected={A: Version(1)})
    published = publish(stores, Bases(stores), publication)
    assert trouble.calls.count(SWAP) == 1
    assert published.commits[0].id == publication.intents[0].id
    assert published.base.manifest.head == published.commits[0]
    assert times_in_history(worn_place, publication.intents[0].id) == 1


def test_a_recognised_commit_is_flushed_before_it_is_acknowledged(place: Place) -> None:
    trouble = Trouble(SWAP, When.AFTER, fail)
    stores = watch_stores(place.open(), trouble)
    publish(stores, Bases(stores), lineage_only())
    assert trouble.calls.index("tables.fsync_version") > trouble.calls.index(SWAP)


def test_a_commit_others_built_on_before_we_looked_is_recognised(worn_place: Place) -> None:
    trouble = Trouble(SWAP, When.AFTER, then(publisher(worn_place), fail))
    stores = watch_stores(worn_place.open(), trouble)
    published = publish(stores, Bases(stores), publication := lineage_only())
    assert published.commits[0].id == publication.intents[0].id
    assert published.base.manifest.head != published.commits[0]
    assert times_in_history(worn_place, publication.intents[0].id) == 1


def test_when_nothing_landed_and_nothing_moved_the_outcome_is_unknown(worn_place: Place) -> None:
    stores = watch_stores(worn_place.open(), Trouble(SWAP, When.BEFORE, fail))
    bases = Bases(stores)
    with pytest.raises(OutcomeUnknown) as caught:
        publish(stores, bases, publication := lineage_only())
    (intent,) = publication.intents
    assert (caught.value.branch, caught.value.commit_id) == (MAIN, intent.id)
    assert times_in_history(worn_place, intent.id) == 0

    assert publish(stores, bases, publication).commits[0].id == intent.id
    assert times_in_history(worn_place, intent.id) == 1


def test_when_nothing_landed_and_somebody_else_did_it_is_tried_again(worn_place: Place) -> None:
    trouble = Trouble(SWAP, When.BEFORE, then(publisher(worn_place), fail))
    stores = watch_stores(worn_place.open(), trouble)
    published = publish(stores, Bases(stores), lineage_only())
    assert trouble.calls.count(SWAP) == 2
    assert times_in_history(worn_place, published.commits[0].id) == 1


@pytest.mark.parametrize("when", When)
def test_when_the_store_stays_down_the_outcome_is_unknown(place: Place, when: When) -> None:
    """Not «failed»: it may have landed, and nobody could look."""
    stores = place.open()
    lost = Trouble(SWAP, when, fail)
    blind = Trouble("tables.open_at", When.BEFORE, fail)
    bases = Bases(watched := watch_stores(watch_stores(stores, lost), blind))
    blind.times = 0
    bases.current(MAIN)
    blind.times = 1
    with pytest.raises(OutcomeUnknown):
        publish(watched, bases, publication := lineage_only())
    assert blind.times == 0

    publish(watched, bases, publication)
    assert times_in_history(place, publication.intents[0].id) == 1


def test_publishing_the_same_commit_again_changes_nothing(place: Place) -> None:
    stores = place.open()
    bases = Bases(stores)
    publication = Publication(MAIN, (new_intent(),), (pin_at(A, 2),), expected={A: Version(1)})
    first = publish(stores, bases, publication)
    for again in (bases, Bases(stores)):
        published = publish(stores, again, publication)
        assert published.commits == first.commits
        assert published.base.handle.version == first.base.handle.version


def test_of_a_chain_only_the_commits_that_are_missing_are_published(place: Place) -> None:
    """A recovery brings the commit it finishes and its own; the first may land without it."""
    stores = place.open()
    bases = Bases(stores)
    intended, recovery = new_intent(), new_intent("omnigraph:recovery")
    first = publish(stores, bases, Publication(MAIN, (intended,)))
    published = publish(stores, bases, Publication(MAIN, (intended, recovery)))
    assert published.commits[0] == first.commits[0]
    assert published.commits[1].parent == intended.id
    assert [each.id for each in manifest_of(place).log.commits[1:]] == [intended.id, recovery.id]
    assert check_manifests(stores) == []


# ── lost races ───────────────────────────────────────────────────────────────────────────────────


def test_after_six_lost_races_it_is_contention_and_nothing_of_ours_is_there(place: Place) -> None:
    trouble = Trouble(SWAP, When.BEFORE, publisher(place), times=1 + BUDGET)
    stores = watch_stores(place.open(), trouble)
    bases = Bases(stores)
    with pytest.raises(Contention) as caught:
        publish(stores, bases, publication := lineage_only())
    assert (caught.value.branch, caught.value.attempts) == (MAIN, 6)
    assert trouble.calls.count(SWAP) == 6
    assert times_in_history(place, publication.intents[0].id) == 0
    publish(stores, bases, publication)
    assert times_in_history(place, publication.intents[0].id) == 1


def test_five_lost_races_are_survived_and_the_parent_is_found_anew(place: Place) -> None:
    trouble = Trouble(SWAP, When.BEFORE, publisher(place), times=BUDGET)
    stores = watch_stores(place.open(), trouble)
    (commit,) = publish(stores, Bases(stores), lineage_only()).commits
    assert trouble.calls.count(SWAP) == 6
    assert commit.parent == manifest_of(place).log.commits[-2].id
    assert check_manifests(place.open()) == []


def test_an_expectation_that_stopped_holding_is_not_tried_again(place: Place) -> None:
    foreign = publisher(place, lambda: Publication(MAIN, (new_intent(),), (pin_at(A, 7),)))
    trouble = Trouble(SWAP, When.BEFORE, foreign)
    stores = watch_stores(place.open(), trouble)
    publication = Publication(MAIN, (new_intent(),), (pin_at(A, 2),), expected={A: Version(1)})
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(stores, Bases(stores), publication)
    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == (A, 1, 7)
    assert trouble.calls.count(SWAP) == 1
    assert times_in_history(place, publication.intents[0].id) == 0


def test_a_version_that_would_stay_hidden_is_refused_when_nothing_was_expected(
    place: Place,
) -> None:
    foreign = publisher(place, lambda: Publication(MAIN, (new_intent(),), (pin_at(A, 7),)))
    stores = watch_stores(place.open(), Trouble(SWAP, When.BEFORE, foreign))
    with pytest.raises(UpdateRefused):
        publish(stores, Bases(stores), Publication(MAIN, (new_intent(),), (pin_at(A, 2),)))


@pytest.mark.parametrize("arrives", ["before we read", "before our swap", "after a lost reply"])
def test_an_operation_that_was_recovered_does_not_go_on(place: Place, arrives: str) -> None:
    recovery = new_intent("omnigraph:recovery")
    recover = publisher(place, lambda: Publication(MAIN, (recovery,)))
    act = then(recover, fail) if arrives == "after a lost reply" else recover
    trouble = Trouble(SWAP, When.BEFORE, act)
    if arrives == "before we read":
        recover()
        trouble.times = 0
    stores = watch_stores(place.open(), trouble)
    publication = Publication(MAIN, (new_intent(),), fence=recovery.id)
    with pytest.raises(Fenced) as caught:
        publish(stores, Bases(stores), publication)
    assert caught.value.recovered_by == recovery.id
    assert times_in_history(place, publication.intents[0].id) == 0
    assert trouble.calls.count(SWAP) == (0 if arrives == "before we read" else 1)


@pytest.mark.parametrize("arrives", ["before we read", "before our swap"])
def test_a_key_that_somebody_else_published_first_is_not_published_again(
    place: Place, arrives: str
) -> None:
    """Two that were asked the same, and neither saw the other before it published."""
    extension = Extension(idempotency=Idempotency("key", "body", {}))
    first, second = (replace(new_intent(), extension=extension) for _ in range(2))
    trouble = Trouble(SWAP, When.BEFORE, publisher(place, lambda: Publication(MAIN, (first,))))
    if arrives == "before we read":
        trouble.act()
        trouble.times = 0
    stores = watch_stores(place.open(), trouble)
    with pytest.raises(AlreadyDone) as caught:
        publish(stores, Bases(stores), Publication(MAIN, (second,)))
    assert caught.value.commit_id == first.id
    assert times_in_history(place, second.id) == 0


# ── settings changed beside a publish ────────────────────────────────────────────────────────────


def change_settings(place: Place) -> None:
    stores: Stores = place.open()
    handle = Bases(stores).current(MAIN).handle
    settings = TableSettings(config={"note": stores.effects.new_id()})
    staged = stores.tables.stage_settings(handle, settings, Mark(stores.effects.new_id()))
    stores.tables.commit_exact(staged)


@pytest.mark.parametrize("form", list(ManifestSwap))
def test_a_commit_beside_which_settings_changed_records_where_it_is(
    place: Place, form: ManifestSwap
) -> None:
    """A merge lands one further on and is put right; a rewritten tail is tried again."""
    trouble = Trouble(SWAP, When.BEFORE, lambda: change_settings(place))
    stores = watch_stores(replace(place, swap=form).open(), trouble)
    (commit,) = publish(stores, Bases(stores), lineage_only()).commits
    assert commit.manifest_version == 3, "two for the settings, three for us"
    assert snapshot_at_commit(stores, commit).commit is not None
    assert times_in_history(place, commit.id) == 1


def test_a_record_that_could_not_be_put_right_is_not_called_a_failure(place: Place) -> None:
    count = iter(range(2))

    def slip_then_fail() -> None:
        if next(count) == 0:
            change_settings(place)
        else:
            fail()

    trouble = Trouble(SWAP, When.BEFORE, slip_then_fail, times=2)
    stores = watch_stores(replace(place, swap=ManifestSwap.MERGE).open(), trouble)
    with pytest.raises(OutcomeUnknown) as caught:
        publish(stores, Bases(stores), publication := lineage_only())
    assert caught.value.commit_id == publication.intents[0].id


def test_sealing_keeps_the_key_and_the_stamp(place: Place) -> None:
    stores = place.open()
    bases = Bases(stores)
    before = bases.current(MAIN).handle.schema
    fragments = []
    for _ in range(12):
        handle = publish(stores, bases, chain(SEALED_ROWS // 3)).base.handle
        fragments.append(len(stores.tables.inspect(handle).fragments))
    assert 2 < max(fragments) < 6
    after = bases.current(MAIN).handle.schema
    assert after.equals(before, check_metadata=True)
    assert check_manifests(stores) == []


# ── reaching the disk ────────────────────────────────────────────────────────────────────────────


def test_what_a_stranger_left_unflushed_is_flushed_before_we_answer(place: Place) -> None:
    """Once, not for every commit that follows."""
    stranger = publisher(place)
    watched = Trouble(SWAP, When.BEFORE, fail, times=0)
    stores = watch_stores(place.open(), watched)
    bases = Bases(stores)
    hardened = []
    for is_beside in (False, False, True, False):
        if is_beside:
            stranger()
        watched.calls.clear()
        publish(stores, bases, lineage_only())
        hardened.append(watched.calls.count("tables.fsync_version"))
    assert hardened == [1, 0, 1, 0]


def test_a_flush_that_fails_after_the_swap_is_not_called_a_failure(place: Place) -> None:
    stores = watch_stores(place.open(), Trouble("tables.fsync_version", When.BEFORE, fail))
    bases = Bases(stores)
    with pytest.raises(OutcomeUnknown) as caught:
        publish(stores, bases, publication := lineage_only())
    assert caught.value.commit_id == publication.intents[0].id
    publish(stores, bases, publication)
    assert times_in_history(place, publication.intents[0].id) == 1
