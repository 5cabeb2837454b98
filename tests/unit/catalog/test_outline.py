"""The outline of a schema: what a question touches, what joins it, and what a budget leaves."""

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.outline import outline_schema
from omnigraph.lang.source import Source

SCHEMA = """
node Person @description("a human being") { name: String @key  age: I32?  mood: enum(glad, sad)? }
node Company { name: String @key }
node City { name: String  country: String  @key(name, country) }
node Recipe { title: String @key @description("what the cook calls it") }
edge WorksAt: Person -> Company @card(0..1) { since: Date? }
edge BasedIn: Company -> City
edge Cooked: Person -> Recipe
"""


def compiled(text: str) -> Catalog:
    return compile_schema(Source("s.pg", text))


CATALOG = compiled(SCHEMA)


def test_the_text_is_a_schema_with_the_same_types_keys_and_cardinalities() -> None:
    again = compiled(outline_schema(CATALOG).text)
    assert [(each.name, each.key) for each in again.nodes] == [
        (each.name, each.key) for each in CATALOG.nodes
    ]
    assert [(each.name, each.cardinality) for each in again.edges] == [
        (each.name, each.cardinality) for each in CATALOG.edges
    ]
    for before, after in zip(CATALOG.nodes, again.nodes, strict=True):
        assert {each.name: each.type for each in before.properties} == {
            each.name: each.type for each in after.properties
        }


@pytest.mark.parametrize(
    ("question", "types"),
    [
        ("who is sad?", {"Person"}),
        ("which people cooked what", {"Person", "Recipe", "Cooked"}),
        ("persons and cities", {"Person", "City", "Company", "WorksAt", "BasedIn"}),
        ("human beings", {"Person"}),
        ("since when", {"Person", "Company", "WorksAt"}),
    ],
)
def test_a_question_shows_what_its_words_touch_and_what_joins_it(
    question: str, types: set[str]
) -> None:
    assert set(outline_schema(CATALOG, question=question).types) == types


def test_interfaces_are_shown_with_what_implements_them_and_found_by_their_names() -> None:
    catalog = compiled(
        """
        interface Message { length: I32 }
        interface Unused { x: I32 }
        node Post implements Message { slug: String @key }
        node Comment implements Message { slug: String @key }
        node Tag { name: String @key }
        """
    )
    found = outline_schema(catalog, question="which messages are long?")
    assert found.text.splitlines() == [
        "interface Message { length: I32 }",
        "node Comment implements Message { length: I32  slug: String @key }",
        "node Post implements Message { length: I32  slug: String @key }",
    ]
    assert [each.implements for each in compiled(found.text).nodes] == [("Message",)] * 2


def test_words_that_touch_nothing_show_everything() -> None:
    everything = outline_schema(CATALOG)
    assert outline_schema(CATALOG, question="xyzzy") == everything
    assert len(everything.types) == 7


def test_a_budget_takes_details_first_and_then_the_least_relevant_types() -> None:
    whole = outline_schema(CATALOG)
    assert "// a human being" in whole.text
    plainer = outline_schema(CATALOG, budget=whole.tokens - 1)
    assert (plainer.types, plainer.omitted) == (whole.types, ())
    assert "human being" not in plainer.text
    assert plainer.tokens < whole.tokens
    least = outline_schema(CATALOG, question="recipes of persons", budget=20)
    assert least.tokens <= 20
    assert "Recipe" in least.types
    assert "Cooked" in least.omitted


def test_samples_stand_in_comments() -> None:
    samples = {"Recipe": {"title": ("Soup */", "Pie")}}
    shown = outline_schema(CATALOG, types=["Recipe"], samples=samples)
    assert "e.g. Soup * /, Pie" in shown.text
    assert [each.name for each in compiled(shown.text).nodes] == ["Recipe"]


def test_an_edge_over_several_ends_is_one_line() -> None:
    text = """interface Place { }
node City implements Place { }
node Country implements Place { }
node Person { }
node Robot { }
edge LivesIn: Person | Robot -> City | Country { since: I32? }"""
    catalog = compile_schema(Source("s.pg", text))
    assert outline_schema(catalog).text == text.replace("{ }", "{  }")
    assert outline_schema(catalog, types=["LivesIn"]).types[0] == "LivesIn"
    assert "Country" in outline_schema(catalog, question="where does a robot live in").types
