"""Every input that once broke a reader, and the seeds of the fuzzer: declared errors, or none."""

from pathlib import Path

import pytest

from support.fuzz_targets import TARGETS, run

CORPUS = Path(__file__).parents[2] / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_raises_declared_errors_only(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for each in inputs:
        data = each.read_bytes()
        run(name, data)
        # Cut and turned over: what an interrupted copy leaves, and what nothing reads.
        for cut in range(0, len(data), max(1, len(data) // 20)):
            run(name, data[:cut])
        run(name, data[::-1])


def test_each_folder_has_a_target() -> None:
    assert {each.name for each in CORPUS.iterdir()} == set(TARGETS)
