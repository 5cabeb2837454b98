"""The list of `scripts/mutants` keeps up with the sources, and the script tells what it sees.

The mutants themselves are tried in `make soak`; they take minutes.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from support.mutants import MUTANTS, REPOSITORY, Mutant, Verdict, select, try_out

HARMLESS = Mutant(
    "nothing is broken",
    "commit/manifest/lineage.py",
    "tuple(sorted(common - surpassed))",
    "tuple(sorted(common.difference(surpassed)))",
    ("tests/unit/commit/manifest/test_lineage.py::test_unrelated_histories_have_no_base",),
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_what_a_mutant_breaks_is_there_once_and_so_is_the_test_that_must_notice(
    mutant: Mutant,
) -> None:
    assert mutant.count() == 1, f"{mutant.file} has changed; see what the mutant was about"
    assert mutant.broken != mutant.original
    for test in mutant.tests:
        file, _, function = test.partition("::")
        source = (REPOSITORY / file).read_text()
        name = function.partition("[")[0]
        assert not name or re.search(rf"^def {name}\(", source, re.MULTILINE), f"no {test}"


def test_there_are_mutants_of_every_part_that_writes_and_no_two_of_one_name() -> None:
    assert len({each.name for each in MUTANTS}) == len(MUTANTS) >= 25
    writing = {"catalog", "commit", "engine", "pipeline", "storage"}
    assert {each.path.parts[1] for each in MUTANTS} >= writing
    assert select(["no such word"]) == []
    assert list(MUTANTS) == select([])


def test_a_mutant_that_nobody_notices_has_survived(tmp_path: Path) -> None:
    assert try_out(HARMLESS).verdict is Verdict.SURVIVED
    assert try_out(replace(HARMLESS, original="no such line")).verdict is Verdict.LOST
    empty = tmp_path / "test_nothing.py"
    empty.write_text("")
    assert try_out(replace(HARMLESS, tests=(str(empty),))).verdict is Verdict.UNRUN
