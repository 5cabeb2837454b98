"""The questions of LSQB and of LDBC SNB, as their authors ask them, beside DuckDB.

The programs are `examples/social`. The reads of SNB are asked with several sets of parameters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import duckdb
import pytest

import omnigraph
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability
from support.social import COUNTRIES, FIRST_NAMES, PEOPLE, POSTS, TAGS, draw_network

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "social"
Values = Mapping[str, object]

_PEOPLE: Sequence[Values] = [{"personId": each} for each in range(0, PEOPLE, 5)]
_MESSAGES: Sequence[Values] = [{"messageId": each} for each in range(0, 3 * POSTS, 20)]
_YEAR = {"start": datetime(2012, 3, 1), "days": 200}  # noqa: DTZ001 - as in the tables
_BEFORE = {"maxDate": datetime(2012, 12, 1)}  # noqa: DTZ001
_COUNTRIES = list(COUNTRIES.values())


def people(*others: Values) -> list[Values]:
    """Every person beside each of these."""
    return [{**one, **other} for one in _PEOPLE for other in others]


PARAMETERS: Mapping[str, Sequence[Values]] = {
    **{f"q{each}": [{}] for each in range(1, 10)},
    **{f"is{each}": _PEOPLE for each in range(1, 4)},
    **{f"is{each}": _MESSAGES for each in range(4, 8)},
    "ic1": people(*({"firstName": each} for each in FIRST_NAMES)),
    "ic2": people(_BEFORE),
    "ic3": people({"countryX": _COUNTRIES[0], "countryY": _COUNTRIES[2], **_YEAR}),
    "ic4": people(_YEAR),
    "ic5": people({"minDate": datetime(2012, 5, 1)}),  # noqa: DTZ001
    "ic6": people({"tagName": f"Tag {min(TAGS)}"}),
    "ic7": _PEOPLE,
    "ic8": _PEOPLE,
    "ic9": people(_BEFORE),
    "ic10": people({"month": 3}, {"month": 12}),
    "ic11": people({"countryName": _COUNTRIES[1], "year": 2008}),
    "ic12": people({"className": "Class 1"}, {"className": "Class 2"}),
    "ic13": [{"from": 0, "to": each} for each in range(0, PEOPLE, 3)],
    "ic14": [{"from": 0, "to": each} for each in range(1, PEOPLE, 3)],
}
FILES = {"q": "lsqb.gq", "is": "short.gq", "ic": "complex.gq"}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    folder = tmp_path_factory.mktemp("social")
    made = omnigraph.init(folder / "g", EXAMPLE / "schema.pg", durability=Durability.RELAXED)
    source = folder / "network.jsonl"
    source.write_text("\n".join(draw_network(1).lines()))
    made.load(source, mode="append", engine="local")
    return made


@pytest.fixture(scope="module")
def questions() -> Mapping[str, str]:
    """The SQL of each question by its name."""
    text = (HERE / "ldbc" / "questions.sql").read_text()
    parts = re.split(r"^-- (\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def database(questions: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        for name, table in draw_network(1).tables():
            made.register(name, table)
        made.execute(questions["views"])
        yield made


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_question_of_the_benchmark_is_answered_as_by_duckdb(
    graph: LocalGraph,
    database: duckdb.DuckDBPyConnection,
    questions: Mapping[str, str],
    name: str,
) -> None:
    file = FILES[name.rstrip("0123456789")]
    statement = graph.prepare(EXAMPLE / file, name=name)
    is_answered = False
    for values in PARAMETERS[name]:
        asked = {
            key: f"{each.isoformat()}Z" if isinstance(each, datetime) else each
            for key, each in values.items()
        }
        found = [tuple(map(naive, row.values())) for row in statement(asked).rows()]
        expected = database.execute(questions[name], values).fetchall()
        assert found == expected, values
        is_answered |= len(expected) > 0 and expected[0] != (0,)
    assert is_answered


def naive(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value
