"""Measured blocks, walks and groups answer as the same questions in SQL."""

import random  # noqa: TID251 - a test chooses its own seed
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.sdk.embedded.graph import LocalGraph

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = 40
EDGES = 160

QUESTIONS = {
    "degrees": (
        "match { $p: Person  count { $p knows $q } >= 4 } return { $p.name }",
        "SELECT src FROM knows GROUP BY src HAVING count(DISTINCT dst) >= 4",
    ),
    "few edges, none included": (
        "match { $p: Person  count { $p $k:knows $q } < 3 } return { $p.name }",
        "SELECT name FROM person LEFT JOIN knows ON src = name GROUP BY name HAVING count(dst) < 3",
    ),
    "existence": (
        "match { $p: Person  exists { $q knows $p  $q.age > 50 } } return { $p.name }",
        """SELECT name FROM person p WHERE EXISTS (
             SELECT 1 FROM knows JOIN person q ON q.name = src WHERE dst = p.name AND q.age > 50
           )""",
    ),
    "a sum against a property of the row": (
        "match { $p: Person  sum($k.since) { $p $k:knows $q } > $p.age } return { $p.name }",
        """SELECT name FROM person JOIN knows ON src = name
           GROUP BY name, age HAVING sum(since) > age""",
    ),
    "distinct values": (
        "match { $p: Person  count(distinct $k.since) { $p $k:knows $q } = 3 } return { $p.name }",
        "SELECT src FROM knows GROUP BY src HAVING count(DISTINCT since) = 3",
    ),
    "conditions on groups": (
        """match { $p: Person  $p $k:knows $q }
           return { $q.name, count($k) as n, avg($p.age) as age }
           having { n > 3 and (age is null or round(age) % 2 = 0) }""",
        """SELECT dst, count(*) AS n, avg(age) AS mean FROM knows JOIN person ON name = src
           GROUP BY dst HAVING n > 3 AND (mean IS NULL OR round(mean) % 2 = 0)""",
    ),
    "values computed of aggregates": (
        """match { $p: Person  $p $k:knows $q }
           return { $q.name, max($k.since) - min($k.since) as years, sum($p.age) / count($p) as age,
                    case when count($k) > 4 then "many" else "few" end as much,
                    len(collect($p.age)) + 1 as known }
           having { years > 0 and count($k) > 1 and not ($q.name = "p1") }""",
        """SELECT dst, max(since) - min(since) AS years, sum(age) / count(*) AS age,
             CASE WHEN count(*) > 4 THEN 'many' ELSE 'few' END, count(age) + 1
           FROM knows JOIN person ON name = src
           GROUP BY dst HAVING years > 0 AND count(*) > 1 AND dst <> 'p1'""",
    ),
    "computed of all rows": (
        """match { $p: Person  $p.age > 1000 }
           return { count($p) + 1 as n, max($p.age) - 1 as old }""",
        "SELECT 1, NULL",
    ),
    "computed in a stage": (
        """match { $p: Person  $p $k:knows $q }
           with { $q, count($k) % 3 as n }  having { n > 0 }
           match { $q.age > 20 }
           return { n, round(avg($q.age)) as age, $q.age > 50 as old }""",
        """SELECT n, round(avg(age)), age > 50 AS old FROM (
             SELECT dst, count(*) % 3 AS n FROM knows GROUP BY dst HAVING n > 0
           ) JOIN person ON name = dst WHERE age > 20 GROUP BY n, old""",
    ),
    "spread and percentiles": (
        """match { $p: Person  $p $k:knows $q }
           return { $q.name, stddev($p.age) as s, percentile($p.age, 0.9) as high,
                    percentile($k.since, 0.5) as mid, collect($p.age) as ages,
                    collect(distinct $k.since) as years }""",
        """SELECT dst, stddev_samp(age), percentile_cont(0.9) WITHIN GROUP (ORDER BY age),
             percentile_cont(0.5) WITHIN GROUP (ORDER BY since),
             list_sort(coalesce(list(age) FILTER (age IS NOT NULL), [])),
             list_sort(coalesce(list(DISTINCT since) FILTER (since IS NOT NULL), []))
           FROM knows JOIN person ON name = src GROUP BY dst""",
    ),
    "blocks by a percentile": (
        """match { $p: Person  percentile($k.since, 0.25) { $p $k:knows $q } > 15 }
           return { $p.name }""",
        "SELECT src FROM knows GROUP BY src HAVING quantile_cont(since, 0.25) > 15",
    ),
    "a union, each row once": (
        """match { $p: Person  $p knows $q } return { $q.name as name, $q.age as age }
           union match { $p: Person  $p.age > 40 } return { $p.name as name, $p.age as age }""",
        """SELECT name, age FROM knows JOIN person ON name = dst
           UNION SELECT name, age FROM person WHERE age > 40""",
    ),
    "a union of a union": (
        """match { $p: Person  $p $k:knows $q } return { $k.since as n }
           union match { $p: Person } return { cast($p.age % 50 as I32) as n }
           union all match { $p: Person  $p knows $q } return { null as n }
           order { n desc } limit 60 offset 3""",
        """(SELECT since AS n FROM knows UNION SELECT age % 50 FROM person)
           UNION ALL (SELECT NULL FROM (SELECT DISTINCT src, dst FROM knows))
           ORDER BY n DESC NULLS LAST LIMIT 60 OFFSET 3""",
    ),
    "neighbours of the best known": (
        """match { $p: Person  $p $k:knows $q } with { $q, count($k) as n } order { n desc } limit 5
           match { $q knows $r  $r.age > n } return { $q.name, n, $r.name }""",
        """WITH best AS (
             SELECT dst AS q, count(*) AS n FROM knows GROUP BY q ORDER BY n DESC, q LIMIT 5
           ) SELECT DISTINCT q, n, name FROM best JOIN knows ON src = q
           JOIN person ON name = dst WHERE age > n""",
    ),
    "nothing after a stage that is never": (
        """match { $p: Person } with { $p } match { $p knows $q  year(now()) < 2001 }
           return { count($q) as n }""",
        "SELECT 0",
    ),
    "groups of groups": (
        """match { $p: Person  $p $k:knows $q } with { $q, count($k) as n } having { n > 1 }
           with { n, count($q) as people } return { sum(people) as all, max(n) as most }""",
        """SELECT sum(people), max(n) FROM (SELECT n, count(*) AS people FROM (
             SELECT count(*) AS n FROM knows GROUP BY dst HAVING n > 1) GROUP BY n)""",
    ),
    "everything that can be reached": (
        "match { $p: Person  $p knows{0,} $q } return { $p.name, count($q) as n }",
        """WITH RECURSIVE far(a, b) AS (
             SELECT name, name FROM person UNION SELECT a, dst FROM far JOIN knows ON src = b
           ) SELECT a, count(*) FROM far GROUP BY a""",
    ),
    "how far everyone is": (
        """match { $p: Person { name: "p0" }  shortest { $p <knows>{0,9} $q } as $way }
           return { $q.name, length($way) as far, len(nodes($way)) - 1 as steps }""",
        """WITH RECURSIVE tie AS (
             SELECT src AS a, dst AS b FROM knows UNION SELECT dst, src FROM knows
           ), far(b, n) AS (
             SELECT 'p0', 0 UNION SELECT tie.b, n + 1 FROM far JOIN tie ON a = far.b WHERE n < 9
           ) SELECT b, min(n), min(n) FROM far GROUP BY b""",
    ),
    "the cheapest ways of few steps": (
        """match { $p: Person { name: "p0" }  shortest { $p knows{0,4} $q } by since as $way }
           return { $q.name, cost($way) as far }""",
        """WITH RECURSIVE far(b, n, far) AS (
             SELECT 'p0', 0, 0.0::DOUBLE
             UNION SELECT dst, n + 1, far + since FROM far JOIN knows ON src = b WHERE n < 4
           ) SELECT b, min(far) FROM far GROUP BY b""",
    ),
    "every shortest way": (
        """match { $p: Person { name: "p1" }  all shortest { $p knows{0,9} $q } as $way }
           return { $q.name, count(nodes($way)) as ways, max(length($way)) as n }""",
        """WITH RECURSIVE step AS (SELECT DISTINCT src, dst FROM knows), far(b, n, ids) AS (
             SELECT 'p1', 0, ['p1'] UNION SELECT dst, n + 1, list_append(ids, dst)
             FROM far JOIN step ON src = b WHERE n < 5 AND NOT list_contains(ids, dst)
           ), near AS (SELECT b, min(n) AS n FROM far GROUP BY b)
           SELECT b, count(*), n FROM far JOIN near USING (b, n) GROUP BY b, n""",
    ),
    "every cheapest way": (
        """match { $p: Person { name: "p2" }  all shortest { $p knows{1,5} $q } by since as $way
                 $p.@id != $q.@id }
           return { $q.name, nodes($way) as way, cost($way) as far }""",
        """WITH RECURSIVE step AS (
             SELECT src, dst, min(since) AS w FROM knows WHERE since IS NOT NULL GROUP BY src, dst
           ), far(b, n, far, ids) AS (
             SELECT 'p2', 0, 0.0::DOUBLE, ['p2']
             UNION SELECT dst, n + 1, far + w, list_append(ids, dst)
             FROM far JOIN step ON src = b WHERE n < 5 AND NOT list_contains(ids, dst)
           ), low AS (SELECT b, min(far) AS far FROM far GROUP BY b),
           few AS (SELECT b, far, min(n) AS n FROM far JOIN low USING (b, far) GROUP BY b, far)
           SELECT b, ids, far FROM far JOIN few USING (b, far, n) WHERE b != 'p2'""",
    ),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    place: Path = tmp_path_factory.mktemp("sql") / "g"
    graph = omnigraph.init(place, SCHEMA)
    drawn = random.Random(7)
    names = [f"p{each}" for each in range(PEOPLE)]
    ages = [drawn.choice([None, *range(90)]) for _ in names]
    rows = [{"name": name, "age": age} for name, age in zip(names, ages, strict=True)]
    graph.insert("Person", rows)
    edges = [
        {"from": drawn.choice(names), "to": drawn.choice(names[: PEOPLE // 2]), "since": year}
        for year in [drawn.choice([None, 10, 20, 30, 40]) for _ in range(EDGES)]
    ]
    graph.insert("Knows", edges)
    return graph


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_the_same_answer_in_sql(graph: LocalGraph, question: str) -> None:
    ours, theirs = QUESTIONS[question]
    person = graph.query(
        "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
    )
    edges = graph.query("query q() { match { $p: Person $p $k:knows $q } return { $k } }")
    objects = [row["k"] for row in edges.json_rows()]
    knows = pa.table(
        {
            name: [each[field] for each in objects if isinstance(each, dict)]
            for name, field in (("src", "@src"), ("dst", "@dst"), ("since", "since"))
        }
    )
    with duckdb.connect() as database:
        database.register("person", person.arrow())
        database.register("knows", knows)
        expected = database.execute(theirs).fetchall()
    found = [tuple(row.values()) for row in graph.query(f"query q() {{ {ours} }}").rows()]
    assert sorted(map(rounded, found)) == sorted(map(rounded, expected))
    assert expected


def rounded(row: Sequence[object]) -> list[str]:
    """Floats as far as the order of a sum cannot show."""
    return [f"{each:.12g}" if isinstance(each, float) else str(each) for each in row]
