"""The rules of a schema, judged on plain rows and a plain graph before them."""

from collections.abc import Collection, Iterable, Mapping

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import EdgeType
from omnigraph.engine.tables.cells import Row
from omnigraph.engine.write.validate import Delta, find_violations
from omnigraph.engine.write.violations import Violation, ViolationKind
from omnigraph.lang.source import Source

CATALOG = compile_schema(
    Source(
        "<schema>",
        """
        node Person { name: String @key  mail: String? @unique  ratio: F64?  @range(ratio, 0..1) }
        node Team { name: String @key }
        edge Joined: Person -> Team @card(1..2)
        """,
    )
)

Rows = Mapping[str, Row]


class Before:
    """A graph of dicts, that notes what it is asked."""

    def __init__(self, **tables: Rows) -> None:
        self.tables = tables
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def find_ids(self, node: str, ids: Collection[str]) -> Collection[str]:
        self.asked.append((node, tuple(ids)))
        return self.tables.get(node, {}).keys() & set(ids)

    def find_holders(self, delta: Delta) -> Iterable[Row]:
        return list(self.tables.get(delta.type.name, {}).values())

    def find_edges(self, edge: EdgeType, sources: Collection[str]) -> Iterable[tuple[str, str]]:
        self.asked.append((edge.name, tuple(sources)))
        for identity, row in self.tables.get(edge.name, {}).items():
            if row["src"] in sources:
                yield identity, str(row["src"])


def person(name: str, mail: str | None = None, ratio: float | None = None) -> Row:
    return {"id": name, "name": name, "mail": mail, "ratio": ratio}


def joined(identity: str, source: str, target: str) -> Row:
    return {"id": identity, "src": source, "dst": target}


def people(*rows: Row, gone: Collection[str] = ()) -> Delta:
    node = CATALOG.node("Person")
    assert node is not None
    return Delta(node, {str(row["id"]): row for row in rows}, gone)


def joins(*rows: Row, gone: Collection[str] = (), left: Collection[str] = ()) -> Delta:
    edge = CATALOG.edge("Joined")
    assert edge is not None
    return Delta(edge, {str(row["id"]): row for row in rows}, gone, left)


def kinds(found: Iterable[Violation]) -> list[str]:
    return [each.kind for each in found]


TEAMS: Rows = {"t": {"id": "t"}, "u": {"id": "u"}, "v": {"id": "v"}}


def test_a_nan_is_outside_of_every_range() -> None:
    assert kinds(find_violations(CATALOG, [people(person("x", ratio=float("nan")))], Before())) == [
        "range"
    ]


def test_a_unique_value_of_a_row_that_is_replaced_or_gone_is_free() -> None:
    before = Before(Person={"a": person("a", "m"), "b": person("b", "n")})
    swapped = people(person("a", "n"), person("b", "m"))
    assert find_violations(CATALOG, [swapped], before) == ()
    assert find_violations(CATALOG, [people(person("c", "m"), gone=["a"])], before) == ()
    (violation,) = find_violations(CATALOG, [people(person("c", "m"))], before)
    assert (violation.ids, violation.property_name) == (("a", "c"), "mail")


def test_what_two_committed_rows_share_is_not_the_fault_of_this_write() -> None:
    before = Before(Person={"a": person("a", "m"), "b": person("b", "m")})
    assert find_violations(CATALOG, [people(person("c", "n"))], before) == ()


def test_only_ends_that_the_write_does_not_bring_along_are_asked_for() -> None:
    before = Before(Team=TEAMS)
    found = find_violations(CATALOG, [people(person("a")), joins(joined("1", "a", "t"))], before)
    assert found == ()
    assert ("Team", ("t",)) in before.asked
    assert "Person" not in {name for name, _ in before.asked}


def test_an_end_that_is_deleted_by_the_write_is_missing() -> None:
    before = Before(Person={"a": person("a")}, Team=TEAMS)
    deltas = [people(gone=["a"]), joins(joined("1", "a", "t"))]
    assert ViolationKind.ENDPOINT in kinds(find_violations(CATALOG, deltas, before))


def test_cardinality_is_judged_for_touched_sources_that_stay() -> None:
    before = Before(
        Person={each: person(each) for each in "abc"},
        Team=TEAMS,
        Joined={"1": joined("1", "a", "t"), "2": joined("2", "b", "t"), "3": joined("3", "c", "t")},
    )
    lost = joins(gone=["1"], left=["a"])
    (violation,) = find_violations(CATALOG, [lost], before)
    assert (violation.kind, violation.ids, violation.value) == ("cardinality", ("a",), 0)
    assert find_violations(CATALOG, [people(gone=["a"]), lost], before) == ()
    crowded = joins(joined("4", "b", "u"), joined("5", "b", "v"))
    (violation,) = find_violations(CATALOG, [crowded], before)
    assert (violation.ids, violation.value) == (("b",), 3)
    assert all("c" not in sources for name, sources in before.asked if name == "Joined")


def test_an_edge_that_moves_counts_once_where_it_ends_up() -> None:
    before = Before(
        Person={each: person(each) for each in "ab"},
        Team=TEAMS,
        Joined={"1": joined("1", "a", "t"), "2": joined("2", "a", "u")},
    )
    assert find_violations(CATALOG, [joins(joined("1", "b", "t"), left=["a"])], before) == ()


PAIRS = compile_schema(
    Source(
        "<schema>",
        """
        node Person { } node Robot { } node City { } node Country { }
        edge LivesIn: Person | Robot -> City | Country @card(1..2)
        """,
    )
)


def lives(pair: str, *rows: Row, gone: Collection[str] = (), left: Collection[str] = ()) -> Delta:
    edge = PAIRS.edge(f"LivesIn.{pair}")
    assert edge is not None
    return Delta(edge, {str(row["id"]): row for row in rows}, gone, left)


def test_edges_of_all_pairs_with_one_type_of_sources_count_together() -> None:
    nodes: dict[str, Rows] = {
        "Person": {"p": {"id": "p"}},
        "Robot": {"p": {"id": "p"}},
        "City": TEAMS,
        "Country": TEAMS,
    }
    held = {"LivesIn.Person.City": {"1": joined("1", "p", "t")}}
    two = lives("Person.Country", joined("1", "p", "t"), joined("2", "p", "u"))
    (violation,) = find_violations(PAIRS, [two], Before(**nodes, **held))
    assert "@card violation on edge LivesIn: 'p' has 3 (max 2)" in violation.message
    assert find_violations(PAIRS, [two], Before(**nodes)) == ()
    robots = {"LivesIn.Robot.City": {"1": joined("1", "p", "t")}}
    assert find_violations(PAIRS, [two], Before(**nodes, **robots)) == ()
    deltas = [lives("Person.City", joined("3", "p", "t")), two]
    (violation,) = find_violations(PAIRS, deltas, Before(**nodes))
    assert violation.value == 3
    lost = lives("Person.City", gone=["1"], left=["p"])
    (violation,) = find_violations(PAIRS, [lost], Before(**nodes, **held))
    assert "'p' has 0 (min 1)" in violation.message
    moved = [lost, lives("Person.Country", joined("1", "p", "u"))]
    assert find_violations(PAIRS, moved, Before(**nodes, **held)) == ()
