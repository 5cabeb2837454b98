"""Expressions of queries, as a user writes them: what each gives, and what it gives for null."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import omnigraph
from omnigraph import LocalGraph
from omnigraph.errors import ParameterInvalid

SCHEMA = """
node Thing {
    name: String @key
    n: I64?
    big: U64?
    x: F64?
    day: Date? @index
    at: DateTime?
    tags: [String]?
    done: Bool?
}
"""

ROWS = [
    {
        "name": "Äpfel",
        "n": 7,
        "big": 2**63,
        "x": 2.5,
        "day": "2024-01-31",
        "at": "2024-02-29T23:30:15.250Z",
        "tags": ["red", "round"],
        "done": True,
    },
    {"name": "empty"},
    {"name": "top", "n": 2**63 - 1, "x": 1e308, "day": "2023-12-31", "tags": [], "done": False},
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalGraph]:
    path: Path = tmp_path_factory.mktemp("expressions") / "things.omni"
    with omnigraph.init(str(path), SCHEMA) as made:
        made.insert("Thing", ROWS)
        yield made


def value_of(graph: LocalGraph, expression: str, name: str = "Äpfel") -> object:
    text = (
        f'query q() {{ match {{ $t: Thing {{ name: "{name}" }} }} return {{ {expression} as v }} }}'
    )
    return graph.query(text).rows()[0]["v"]


def names_where(graph: LocalGraph, clause: str) -> list[object]:
    text = (
        f"query q() {{ match {{ $t: Thing  {clause} }} return {{ $t.name }} order {{ $t.name }} }}"
    )
    return [row["t.name"] for row in graph.query(text).rows()]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$t.n + 1", 8),
        ("$t.n -1", 6),
        ("2 * ($t.n - 10)", -6),
        ("-$t.n % 4", -3),
        ("$t.n / 2", 3.5),
        ("floor($t.n / 2)", 3.0),
        ("round(-$t.x)", -3.0),
        ("$t.big + 1", None),
        ("$t.n / ($t.n - 7)", None),
        ("$t.n % ($t.n - 7)", None),
        ("lower($t.name)", "äpfel"),
        ("upper(trim(concat(' ', $t.name)))".replace("'", '"'), "ÄPFEL"),
        ("length($t.name)", 5),
        ("substring($t.name, 2, 3)", "pfe"),
        ("substring($t.name, -1, 3)", "Ä"),
        ("substring($t.name, 4)", "el"),
        ('matches($t.name, "^.p+f")', True),
        ('starts_with($t.name, "Ap")', False),
        ("at($t.tags, 2)", "round"),
        ("at($t.tags, 3)", None),
        ("len($t.tags)", 2),
        ('contains($t.tags, "red")', True),
        ("year($t.at) * 100 + month($t.at)", 202402),
        ("second($t.at)", 15),
        ("$t.day + months(1)", date(2024, 2, 29)),
        ('$t.day - duration("P1Y1D")', date(2023, 1, 30)),
        ("$t.at + hours(1)", datetime(2024, 3, 1, 0, 30, 15, 250_000, tzinfo=UTC)),
        ("$t.day + years(9000)", None),
        ('date_diff("month", $t.day, cast($t.at as Date))', 1),
        ('date_diff("week", date("2024-01-07"), date("2024-01-08"))', 1),
        ("cast($t.x as I64)", 2),
        ("cast($t.big as I64)", None),
        ('cast(concat("1", "2") as I32)', 12),
        ("cast($t.day as String)", "2024-01-31"),
        ("coalesce(null, $t.n, 0)", 7),
        ('case when $t.n > 5 then "many" else "few" end', "many"),
        ("case $t.n when 7 then 1.5 else 2 end", 1.5),
        ("$t.n > 5 and $t.done", True),
        ("not ($t.n = 7) or $t.done is null", False),
    ],
)
def test_an_expression_has_its_value(graph: LocalGraph, expression: str, value: object) -> None:
    assert value_of(graph, expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("$t.n + 1", None),
        ("lower($t.at)".replace("at", "name"), "empty"),
        ("concat($t.name, cast($t.n as String))", None),
        ("$t.n > 5", None),
        ("not ($t.n > 5)", None),
        ("$t.n > 5 and false", False),
        ("$t.n > 5 or $t.n is null", True),
        ("coalesce($t.n, -1)", -1),
        ('case when $t.n > 5 then "many" else "few" end', "few"),
        ("case when not ($t.n > 5) then 1 end", None),
        ("len($t.tags)", None),
        ('contains($t.tags, "red")', None),
    ],
)
def test_null_is_as_in_sql(graph: LocalGraph, expression: str, value: object) -> None:
    assert value_of(graph, expression, "empty") == value


def test_what_overflows_is_null(graph: LocalGraph) -> None:
    assert value_of(graph, "$t.n + 1", "top") is None
    assert value_of(graph, "$t.n * 2", "top") is None
    assert value_of(graph, "-$t.n - 2", "top") is None
    assert value_of(graph, "$t.x * 10", "top") is None
    assert value_of(graph, "-$t.n - 1", "top") == -(2**63)


def test_expressions_filter(graph: LocalGraph) -> None:
    assert names_where(graph, "$t.n % 2 = 1") == ["top", "Äpfel"]
    assert names_where(graph, "not ($t.n = 7)") == ["top"]
    assert names_where(graph, "not { $t.n = 7 }") == ["empty", "top"]
    assert names_where(graph, "($t.done)") == ["Äpfel"]
    assert names_where(graph, "year($t.day) = 2024") == ["Äpfel"]
    assert names_where(graph, "year($t.day) != 2024") == ["top"]
    assert names_where(graph, "len($t.tags) = 0 or $t.tags is null") == ["empty", "top"]
    assert names_where(graph, 'matches($t.name, "p")') == ["empty", "top", "Äpfel"]


def test_expressions_group_and_order(graph: LocalGraph) -> None:
    text = """
    query q() {
      match { $t: Thing }
      return { coalesce(year($t.day), 0) as made, count($t) as many, sum($t.n % 10) as last }
      order { made desc }
    }
    """
    assert graph.query(text).rows() == [
        {"made": 2024, "many": 1, "last": 7.0},
        {"made": 2023, "many": 1, "last": 7.0},
        {"made": 0, "many": 1, "last": None},
    ]
    ordered = """
    query q() {
      match { $t: Thing }
      return { $t.name, length($t.name) as long }
      order { -long, $t.name }
    }
    """
    assert [row["t.name"] for row in graph.query(ordered).rows()] == ["empty", "Äpfel", "top"]


def test_a_fixed_expression_reaches_the_table(graph: LocalGraph) -> None:
    text = """
    query q($n: I64) {
      match { $t: Thing  $t.day > date("2024-01-01") + days($n)  year($t.day) < 2030 - 1 }
      return { $t.name }
    }
    """
    assert graph.query(text, params={"n": 29}).rows() == [{"t.name": "Äpfel"}]
    plan = graph.explain(text)
    assert "btree index on day" in str(plan)
    assert 'date("2029-01-01")' in str(plan)


def test_a_pattern_that_is_none_is_refused_when_it_is_bound(graph: LocalGraph) -> None:
    text = "query q($p: String) { match { $t: Thing  matches($t.name, $p) } return { $t.name } }"
    assert len(graph.query(text, params={"p": "^t"}).rows()) == 1
    with pytest.raises(ParameterInvalid, match="not a pattern"):
        graph.query(text, params={"p": "(?=x)"})
