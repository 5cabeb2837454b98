"""Laws of the migration planner."""

from hypothesis import given, strategies as st

from omnigraph.catalog.migration.diff import diff
from omnigraph.catalog.migration.planning import plan_migration
from omnigraph.catalog.migration.steps import describe_step, encode_step
from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property
from omnigraph.catalog.types import Scalar, ValueType

NAMES = st.sampled_from(["a", "b", "c", "d"])
TYPES = st.builds(ValueType, st.sampled_from([Scalar.STRING, Scalar.I32]), nullable=st.booleans())


def _sorted_properties(found: dict[str, ValueType]) -> tuple[Property, ...]:
    return tuple(Property(name, found[name]) for name in sorted(found))


PROPERTIES = st.dictionaries(NAMES, TYPES, max_size=4).map(_sorted_properties)


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    nodes = sorted(draw(st.sets(st.sampled_from(["N1", "N2", "N3"]), min_size=1)))
    edges = sorted(draw(st.sets(st.sampled_from(["E1", "E2"]))))
    ends = st.sampled_from(nodes)
    return Catalog(
        nodes=tuple(NodeType(name, draw(PROPERTIES)) for name in nodes),
        edges=tuple(EdgeType(name, draw(ends), draw(ends), draw(PROPERTIES)) for name in edges),
    )


@given(catalogs())
def test_nothing_differs_from_itself(catalog: Catalog) -> None:
    assert diff(catalog, catalog) == ()


@given(catalogs(), catalogs())
def test_two_catalogs_differ_exactly_when_they_are_not_equal(old: Catalog, new: Catalog) -> None:
    assert (diff(old, new) == ()) == (old == new)


@given(catalogs(), catalogs())
def test_every_plan_can_be_printed_both_ways(old: Catalog, new: Catalog) -> None:
    plan = plan_migration(old, new)
    assert plan.supported == all(
        encode_step(each)["kind"] != "unsupported_change" for each in plan.steps
    )
    assert all(describe_step(each) for each in plan.steps)
