"""A worker probes the staging record of its job."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from omnigraph.commit.leases.owner import Owner, this_process
from omnigraph.commit.leases.staging import PROBE_MS, SILENT_TTLS, LivenessProbe, StagingRecord
from omnigraph.effects import REAL
from omnigraph.ids import MAIN, OperationId
from omnigraph.storage.layout import staging_record_key
from omnigraph.storage.objects import Objects
from support.writing import stores_at

JOB = OperationId("job")
ELSEWHERE = Owner("another machine", "boot", 1, 1)
TTL_MS = 10_000


@dataclass
class Scene:
    objects: Objects
    now_ms: int = 0

    def probe(self) -> LivenessProbe:
        return LivenessProbe(self.objects, JOB, replace(REAL, monotonic_ms=lambda: self.now_ms))

    def renew(self, beats: int, owner: Owner = ELSEWHERE) -> None:
        record = StagingRecord(JOB, MAIN, {}, owner, TTL_MS)
        self.objects.put_over(staging_record_key(JOB), record.encode(beats))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(stores_at(tmp_path).objects)


def test_a_job_is_alive_while_its_record_is_renewed(scene: Scene) -> None:
    probe = scene.probe()
    for beats in range(5):
        scene.renew(beats)
        assert probe.is_job_alive()
        scene.now_ms += SILENT_TTLS * TTL_MS
    assert probe.is_job_alive()
    scene.now_ms += PROBE_MS
    assert not probe.is_job_alive(), "it was not renewed"


def test_a_job_whose_owner_died_on_this_machine_is_not_alive(scene: Scene) -> None:
    scene.renew(0, this_process())
    assert scene.probe().is_job_alive()
    scene.renew(0, replace(this_process(), pid_start=1))
    assert not scene.probe().is_job_alive()


def test_a_job_whose_record_was_removed_has_ended(scene: Scene) -> None:
    assert not scene.probe().is_job_alive()


def test_a_record_that_cannot_be_read_says_nothing(scene: Scene) -> None:
    scene.objects.put_over(staging_record_key(JOB), b"{")
    assert scene.probe().is_job_alive()
