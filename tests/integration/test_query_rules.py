"""The rules of reads, one by one, each in every way a graph can be read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.compiler.ir import NOW_PARAMETER
from omnigraph.engine.graph import Graph, Mode
from omnigraph.engine.opening import create, open_graph
from omnigraph.engine.settings import AccessMode, Settings
from omnigraph.lang.source import Source
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
node Gallery { code: String @key   floor: I32?   area: F64?   total: I64? }
node Artwork {
    ref: String @key   title: String   medium: enum(oil, ink, print)   tags: [String]?
    made_on: Date?   seen_at: DateTime?   sold: Bool?   height: F32?
}
node P { name: String @key }
edge Hangs: Artwork -> Gallery { since: Date?   nails: I32? }
edge Inspired: Artwork -> Artwork
edge Next: P -> P
"""

GALLERIES: list[dict[str, object]] = [
    {"code": "G1", "floor": 1, "area": 10.5, "total": 2**53 + 1},
    {"code": "G2", "floor": 2, "area": 20.0, "total": 2**53},
    {"code": "G3", "floor": None, "area": None, "total": None},
    {"code": "G4", "floor": 2, "area": -0.0, "total": -1},
]
ARTWORKS: list[dict[str, object]] = [
    {
        "ref": "A1",
        "title": "Study of a boat",
        "medium": "oil",
        "tags": ["red", "sea"],
        "made_on": "1900-05-01",
        "seen_at": "2024-05-01T08:00:00Z",
        "sold": True,
        "height": 0.1,
    },
    {"ref": "A2", "title": "Boat", "medium": "ink", "tags": [], "made_on": "1899-12-31"},
    {"ref": "A3", "title": "100% boat_", "medium": "ink", "sold": False},
    {"ref": "A4", "title": "Étude", "medium": "print", "tags": ["sea"]},
]
HANGS: list[dict[str, object]] = [
    {"from": "A1", "to": "G1", "since": "2024-01-01", "nails": 2},
    {"from": "A1", "to": "G1", "since": "2024-02-01", "nails": 3},
    {"from": "A2", "to": "G2"},
    {"from": "A4", "to": "G2", "nails": 1},
]
INSPIRED = [("A1", "A2"), ("A2", "A3"), ("A3", "A1"), ("A1", "A3")]
NEXT = [("A", "B"), ("B", "C"), ("A", "C"), ("C", "A"), ("C", "C")]

NOW_MS = 1_714_550_400_000
"""2024-05-01T08:00:00Z, when the first artwork was seen."""


@dataclass(frozen=True)
class Case:
    """A query by its body; rows are compared as a bag unless it has an order."""

    rule: str
    body: str
    rows: Sequence[Sequence[object]]
    params: tuple[tuple[str, str, object], ...] = ()

    @property
    def source(self) -> Source:
        declared = ", ".join(f"${name}: {kind}" for name, kind, _ in self.params)
        return Source("rule.gq", f"query rule({declared}) {{ {self.body} }}")

    @property
    def values(self) -> dict[str, object]:
        return {NOW_PARAMETER: "2024-05-01T08:00:00Z"} | {
            name: value for name, _, value in self.params
        }


def gallery(where: str) -> str:
    return f"match {{ $g: Gallery {where} }} return {{ $g.code }}"


def artwork(where: str) -> str:
    return f"match {{ $a: Artwork {where} }} return {{ $a.ref }}"


def ones(*values: object) -> list[list[object]]:
    return [[each] for each in values]


EXECUTION = [
    Case(
        "parts that are not connected are combined",
        "match { $p: P $g: Gallery $g.floor = 1 } return { $p.name, $g.code }",
        [["A", "G1"], ["B", "G1"], ["C", "G1"]],
    ),
    Case(
        "a result is a bag",
        "match { $a: Artwork $a $h:hangs $g } return { $g.code }",
        ones("G1", "G1", "G2", "G2"),
    ),
    Case(
        "a walk whose ends are bound is a check",
        "match { $a: Artwork $b: Artwork $a inspired $b $b inspired $c $c inspired $a } "
        "return { $a.ref, $b.ref, $c.ref }",
        [["A1", "A2", "A3"], ["A2", "A3", "A1"], ["A3", "A1", "A2"]],
    ),
    Case(
        "binding twice applies both sets of matches",
        'match { $a: Artwork { medium: "ink" } $a: Artwork { ref: "A2" } } return { $a.ref }',
        ones("A2"),
    ),
]

FILTERS = [
    Case("a comparison with null is no match", gallery("$g.floor = 2"), ones("G2", "G4")),
    Case("nor is an inequality with null", gallery("$g.floor != 2"), ones("G1")),
    Case("is null finds nulls", gallery("$g.floor is null"), ones("G3")),
    Case("is not null finds the rest", gallery("$g.floor is not null"), ones("G1", "G2", "G4")),
    Case("a null parameter matches nothing", gallery("$g.floor != $n"), [], (("n", "I32?", None),)),
    Case("nothing equals a fraction in an integer", gallery("$g.floor = 1.5"), []),
    Case("everything differs from it", gallery("$g.floor != 1.5"), ones("G1", "G2", "G4")),
    Case("above a fraction", gallery("$g.floor > 1.7"), ones("G2", "G4")),
    Case("below a fraction", gallery("$g.floor <= 1.7"), ones("G1")),
    Case(
        "large integers are not rounded",
        gallery("$g.total > $n"),
        ones("G1"),
        (("n", "F64", 2.0**53),),
    ),
    Case(
        "nor is a large parameter next to a float",
        gallery("$g.area < $n"),
        ones("G1", "G2", "G4"),
        (("n", "I64", 2**53 + 1),),
    ),
    Case("both zeros are one", gallery("$g.area = 0.0"), ones("G4")),
    Case(
        "beyond the range of the type",
        gallery("$g.floor < $n"),
        ones("G1", "G2", "G4"),
        (("n", "I64", 2**40),),
    ),
    Case("columns of different types", gallery("$g.floor < $g.area"), ones("G1", "G2")),
    Case("columns that no type holds together", gallery("$g.total > $g.area"), ones("G1", "G2")),
    Case(
        "an inline match on a list is membership",
        artwork('$a: Artwork { tags: "sea" }'),
        ones("A1", "A4"),
    ),
    Case("contains on a list", artwork('$a.tags contains "red"'), ones("A1")),
    Case("contains null", artwork("$a.tags contains $t"), [], (("t", "String?", None),)),
    Case("contains on text minds the case", artwork('$a.title contains "boat"'), ones("A1", "A3")),
    Case("contains knows no wildcards", artwork('$a.title contains "%"'), ones("A3")),
    Case("starts_with is exact", artwork('$a.title starts_with "É"'), ones("A4")),
    Case(
        "starts_with with a null", artwork("$a.title starts_with $t"), [], (("t", "String?", None),)
    ),
    Case("in a list literal", artwork('$a.medium in ["oil", "print"]'), ones("A1", "A4")),
    Case(
        "in a list parameter",
        artwork("$a.ref in $refs"),
        ones("A2", "A3"),
        (("refs", "[String]", ["A2", "A3", "zz"]),),
    ),
    Case("in an empty list", artwork("$a.ref in $refs"), [], (("refs", "[String]", []),)),
    Case("or takes either", artwork('($a.medium = "oil" or $a.sold = false)'), ones("A1", "A3")),
    Case("a date", artwork('$a.made_on >= date("1900-01-01")'), ones("A1")),
    Case("an instant", artwork('$a.seen_at = datetime("2024-05-01T10:00:00+02:00")'), ones("A1")),
    Case("a boolean", artwork("$a.sold != true"), ones("A3")),
    Case("a literal beside an F32 means the F32", artwork("$a.height = 0.1"), ones("A1")),
    Case("now is one instant", artwork("$a.seen_at <= now()"), ones("A1")),
    Case("and does not come before", artwork("$a.seen_at < now()"), []),
]

TRAVERSALS = [
    Case(
        "one hop by default",
        'match { $p: P { name: "A" } $p next $q } return { $q.name }',
        ones("B", "C"),
    ),
    Case(
        "a node counts at its shortest distance",
        'match { $p: P { name: "A" } $p next{1,3} $q } return { $q.name }',
        ones("B", "C"),
    ),
    Case(
        "a loop on the way is a detour",
        'match { $p: P { name: "A" } $p next{2,2} $q } return { $q.name }',
        [],
    ),
    Case(
        "no hop is the node itself",
        'match { $p: P { name: "B" } $p next{0,1} $q } return { $q.name }',
        ones("B", "C"),
    ),
    Case(
        "as far as edges lead",
        'match { $p: P { name: "B" } $p next{2,} $q } return { $q.name }',
        ones("A"),
    ),
    Case(
        "hops from none to wherever edges lead, checked",
        "match { $p: P $q: P $p next{0,} $q } return { count($q) as n }",
        ones(9),
    ),
    Case(
        "a loop at the source",
        'match { $p: P { name: "C" } $p next $q } return { $q.name }',
        ones("A", "C"),
    ),
    Case(
        "parallel edges collapse",
        "match { $a: Artwork $a hangs $g } return { $a.ref, $g.code }",
        [["A1", "G1"], ["A2", "G2"], ["A4", "G2"]],
    ),
    Case(
        "unless the edge is bound",
        "match { $a: Artwork $a $h:hangs $g } return { $a.ref, $h.nails }",
        [["A1", 2], ["A1", 3], ["A2", None], ["A4", 1]],
    ),
    Case(
        "backwards from the target",
        'match { $g: Gallery { code: "G2" } $a hangs $g } return { $a.ref }',
        ones("A2", "A4"),
    ),
    Case(
        "either written order",
        'match { $g: Gallery { code: "G2" } $g hangs $a } return { $a.ref }',
        ones("A2", "A4"),
    ),
    Case(
        "undirected",
        'match { $p: P { name: "B" } $p <next> $q } return { $q.name }',
        ones("A", "C"),
    ),
    Case(
        "an undirected loop once",
        'match { $p: P { name: "C" } $p $e:<next> $q } return { $q.name }',
        ones("A", "A", "B", "C"),
    ),
    Case(
        "undirected, several hops",
        'match { $p: P { name: "B" } $p <next>{2,3} $q } return { $q.name }',
        [],
    ),
    Case(
        "an edge between two types does not chain",
        "match { $a: Artwork $a hangs{2,3} $g } return { $g.code }",
        [],
    ),
    Case(
        "and its upper bound is one",
        'match { $a: Artwork { ref: "A1" } $a hangs{1,3} $g } return { $g.code }',
        ones("G1"),
    ),
    Case(
        "a wildcard multiplies",
        "match { $a: Artwork $a inspired $_ } return { $a.ref }",
        ones("A1", "A1", "A2", "A3"),
    ),
    Case(
        "two wildcards are independent",
        'match { $a: Artwork { ref: "A1" } $a inspired $_ $a inspired $_ } return { $a.ref }',
        ones("A1", "A1", "A1", "A1"),
    ),
    Case(
        "a filter on a bound edge",
        "match { $a: Artwork $a $h:hangs $g $h.nails > 1 } return { $h.since } order { $h.since }",
        ones("2024-01-01", "2024-02-01"),
    ),
]

BLOCKS = [
    Case("a negation drops what it finds", artwork("not { $a hangs $_ }"), ones("A3")),
    Case("with the direction that was inferred", gallery("not { $g hangs $_ }"), ones("G3", "G4")),
    Case("an unknown is not found", gallery("not { $g.floor > 1 }"), ones("G1", "G3")),
    Case("negations nest", artwork("not { $a hangs $g not { $g.floor = 1 } }"), ones("A1", "A3")),
    Case(
        "hops inside are honoured",
        "match { $p: P not { $p next{2,2} $q } } return { $p.name }",
        ones("A"),
    ),
    Case(
        "optional keeps the row",
        "match { $a: Artwork optional { $a hangs $g } } return { $a.ref, $g.code }",
        [["A1", "G1"], ["A2", "G2"], ["A3", None], ["A4", "G2"]],
    ),
    Case(
        "a filter below sees the unbound",
        "match { $a: Artwork optional { $a hangs $g } $g is null } return { $a.ref }",
        ones("A3"),
    ),
    Case(
        "a filter inside does not drop the row",
        "match { $a: Artwork optional { $a hangs $g $g.floor = 1 } } return { $a.ref, $g.code }",
        [["A1", "G1"], ["A2", None], ["A3", None], ["A4", None]],
    ),
]

PROJECTIONS = [
    Case(
        "values are collected in ascending order, without nulls",
        "match { $a: Artwork } return { collect($a.made_on) as days, collect($a.sold) as sold, "
        "collect(distinct $a.medium) as media, collect($a.seen_at) as seen }",
        [
            [
                ["1899-12-31", "1900-05-01"],
                [False, True],
                ["ink", "oil", "print"],
                ["2024-05-01T08:00:00.000Z"],
            ]
        ],
    ),
    Case(
        "over nothing, a list is empty and a spread is null",
        'match { $g: Gallery { code: "G0" } } return { collect($g.code) as codes, '
        "stddev($g.area) as spread, percentile($g.area, 0.5) as mid }",
        [[[], None, None]],
    ),
    Case(
        "one value has no spread, and is every percentile",
        'match { $g: Gallery { code: "G1" } } return { stddev($g.area) as spread, '
        "percentile($g.area, 0.3) as mid }",
        [[None, 10.5]],
    ),
    Case(
        "groups are kept by their columns",
        "match { $g: Gallery } return { $g.floor as floor, count($g) as n } "
        "having { n > 1 or floor is null }",
        [[2, 2], [None, 1]],
    ),
    Case(
        "a node is an object",
        'match { $g: Gallery { code: "G2" } } return { $g }',
        [[{"@id": "G2", **GALLERIES[1]}]],
    ),
    Case(
        "an unbound variable is no object",
        'match { $a: Artwork { ref: "A3" } optional { $a hangs $g } } '
        "return { $g, count($a) as n }",
        [[None, 1]],
    ),
    Case(
        "edges are counted",
        'match { $a: Artwork { ref: "A1" } $a $h:hangs $g } return { $g, count($h) as n }',
        [[{"@id": "G1", **GALLERIES[0]}, 2]],
    ),
    Case(
        "literals, parameters and now",
        'match { $p: P { name: "A" } } return { 1 as one, "x" as text, $n, now() as t }',
        [[1, "x", 7, "2024-05-01T08:00:00.000Z"]],
        (("n", "I64", 7),),
    ),
    Case("lists", 'match { $a: Artwork { ref: "A1" } } return { $a.tags }', [[["red", "sea"]]]),
    Case(
        "groups, null among the keys",
        "match { $g: Gallery } return { $g.floor, count($g) as n }",
        [[1, 1], [2, 2], [None, 1]],
    ),
    Case(
        "nulls are not counted, rows are",
        "match { $g: Gallery } return { count($g.floor) as floors, count($g) as all }",
        [[3, 4]],
    ),
    Case(
        "sum, avg, min and max skip nulls",
        "match { $g: Gallery } return { sum($g.floor) as s, avg($g.floor) as a, "
        "min($g.floor) as lo, max($g.code) as hi }",
        [[5.0, 5 / 3, 1, "G4"]],
    ),
    Case(
        "of nothing",
        'match { $g: Gallery $g.code = "none" } return { count($g) as n, '
        "sum($g.floor) as s, min($g.floor) as lo }",
        [[0, None, None]],
    ),
    Case(
        "of nothing, by key",
        'match { $g: Gallery $g.code = "none" } return { $g.floor, count($g) as n }',
        [],
    ),
    Case(
        "distinct values",
        "match { $a: Artwork $a hangs $g } return { "
        "count(distinct $g.floor) as floors, count($g.floor) as rows }",
        [[2, 3]],
    ),
    Case(
        "groups by node",
        "match { $a: Artwork $a inspired $b } return { $a.ref, count($b) as n }",
        [["A1", 2], ["A2", 1], ["A3", 1]],
    ),
]

ORDERS = [
    Case(
        "nulls first",
        "match { $g: Gallery } return { $g.code } order { $g.floor }",
        ones("G3", "G1", "G2", "G4"),
    ),
    Case(
        "nulls last, ties by id",
        "match { $g: Gallery } return { $g.code } order { $g.floor desc }",
        ones("G2", "G4", "G1", "G3"),
    ),
    Case(
        "by an alias",
        "match { $g: Gallery } return { $g.area as size } order { size desc } limit 2",
        ones(20.0, 10.5),
    ),
    Case("limit zero", "match { $g: Gallery } return { $g.code } limit 0", []),
    Case(
        "offset",
        "match { $g: Gallery } return { $g.code } order { $g.code } limit 2 offset 1",
        ones("G2", "G3"),
    ),
    Case("offset beyond the end", "match { $g: Gallery } return { $g.code } offset 9", []),
    Case(
        "a parameter as limit",
        "match { $g: Gallery } return { $g.code } order { $g.code } limit $n",
        ones("G1"),
        (("n", "I64", 1),),
    ),
    Case(
        "ties by the ids of all variables in name order",
        "match { $b: Artwork $b inspired $a } return { $a.ref, $b.ref } order { $b.medium }",
        [["A1", "A3"], ["A3", "A2"], ["A2", "A1"], ["A3", "A1"]],
    ),
    Case(
        "groups in a tie go by their keys",
        "match { $g: Gallery } return { $g.floor, count($g.code) as n } order { n }",
        [[None, 1], [1, 1], [2, 2]],
    ),
]

MEASURED = [
    Case("what exists keeps its rows", artwork("exists { $a hangs $g }"), ones("A1", "A2", "A4")),
    Case(
        "a block counts distinct neighbours",
        artwork("count { $a hangs $g } = 1"),
        ones("A1", "A2", "A4"),
    ),
    Case(
        "a block with an edge variable counts edges",
        artwork("count { $a $h:hangs $g } >= 2"),
        ones("A1"),
    ),
    Case("nothing counts zero", artwork("count { $a hangs $g } < 1"), ones("A3")),
    Case(
        "a sum over nothing is null and compares with nothing",
        artwork("sum($h.nails) { $a $h:hangs $g } != 5"),
        ones("A4"),
    ),
    Case("a sum over a block", artwork("sum($h.nails) { $a $h:hangs $g } = 5"), ones("A1")),
    Case("an average over a block", artwork("avg($h.nails) { $a $h:hangs $g } = 2.5"), ones("A1")),
    Case(
        "the largest date of a block",
        artwork('max($h.since) { $a $h:hangs $g } = date("2024-02-01")'),
        ones("A1"),
    ),
    Case(
        "a block is compared with a property of the row",
        gallery("count { $a hangs $g } >= $g.floor"),
        ones("G1", "G2"),
    ),
    Case(
        "distinct values of a block",
        gallery("count(distinct $a.medium) { $a hangs $g } = $n"),
        ones("G2"),
        (("n", "I64", 2),),
    ),
    Case(
        "blocks within blocks",
        gallery("exists { $a hangs $g count { $b inspired $a } = 1 }"),
        ones("G1", "G2"),
    ),
]

CASES = [*EXECUTION, *FILTERS, *TRAVERSALS, *BLOCKS, *MEASURED, *PROJECTIONS, *ORDERS]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("museum") / "g"
    settings = Settings(durability=Durability.RELAXED)
    graph = LocalGraph(create(str(place), SCHEMA, settings=settings))
    graph.insert("Gallery", GALLERIES)
    graph.insert("Artwork", ARTWORKS)
    graph.insert("P", [{"name": each} for each in "ABC"])
    graph.insert("Hangs", HANGS)
    graph.insert("Inspired", [{"from": a, "to": b} for a, b in INSPIRED])
    graph.insert("Next", [{"from": a, "to": b} for a, b in NEXT])
    return place


@pytest.fixture(scope="module", params=AccessMode, ids=lambda access: access.value)
def graph(request: pytest.FixtureRequest, root: Path) -> Graph:
    settings = replace(Settings(), query_access=request.param)
    return open_graph(str(root), mode=Mode.READ_ONLY, settings=settings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule.replace(" ", "_"))
def test_a_rule_holds(case: Case, graph: Graph) -> None:
    result = graph.query(case.source, params=case.values)
    rows: list[list[object]] = [list(row.values()) for row in result.json_rows()]
    expected: list[list[object]] = [list(row) for row in case.rows]
    arranged: Callable[[list[list[object]]], list[list[object]]] = (
        list if " order " in case.body else lambda given: sorted(given, key=repr)
    )
    assert arranged(rows) == arranged(expected)


def test_text_of_what_a_block_never_reached_is_not_found(graph: Graph) -> None:
    """The block walks a bound that no walk has, so that nothing below it is ever asked."""
    body = (
        "match { $g: Gallery optional { $a: Artwork  $a hangs $g  $a hangs{2,3} $h } "
        'search($a.title, "boat") } return { $g.code }'
    )
    assert len(graph.query(Source("rule.gq", f"query rule() {{ {body} }}"))) == 0


def test_an_edge_is_an_object_with_its_ends(graph: Graph) -> None:
    body = "match { $a: Artwork $a $h:hangs $g $h.nails = 1 } return { $h }"
    result = graph.query(Source("edge.gq", f"query edge() {{ {body} }}"))
    ((cell,),) = (row.values() for row in result.json_rows())
    assert isinstance(cell, dict)
    identity = cell.pop("@id")
    assert isinstance(identity, str)
    assert cell == {"@src": "A4", "@dst": "G2", "since": None, "nails": 1}


def test_an_object_has_python_values_and_is_a_struct_of_arrow(graph: Graph) -> None:
    body = 'match { $a: Artwork { ref: "A1" } } return { $a }'
    result = graph.query(Source("node.gq", f"query node() {{ {body} }}"))
    ((shown,),) = (row.values() for row in result.rows())
    assert isinstance(shown, dict)
    assert shown["made_on"] == date(1900, 5, 1)
    assert shown["seen_at"] == datetime(2024, 5, 1, 8, tzinfo=UTC)
    table = result.arrow()
    assert table["a"].to_pylist() == [shown]
    assert table.schema.field("a").type.field("seen_at").type == pa.timestamp("ms", "UTC")


def test_a_traversal_without_a_bound_ends_at_the_setting(root: Path) -> None:
    settings = Settings(durability=Durability.RELAXED, query_hops_max=1)
    graph = open_graph(str(root), mode=Mode.READ_ONLY, settings=settings)
    body = 'match { $p: P { name: "B" } $p next{1,} $q } return { $q.name }'
    result = graph.query(Source("far.gq", f"query far() {{ {body} }}"))
    assert [row["q.name"] for row in result.rows()] == ["C"]
