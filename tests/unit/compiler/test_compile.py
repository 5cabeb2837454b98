import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.compiler import ir
from omnigraph.compiler.compile import compile_file, compile_query, compile_tree
from omnigraph.errors import QueryInvalid, QueryNotFound
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
ADULTS = "query adults($n: I32) { match { $p: Person  $p.age >= $n } return { $p.name } }"
RENAME = 'query rename() { update Person set { age: 1 } where name = "x" }'
WRONG = "query wrong() { match { $p: Persn } return { $p.name } }"


@pytest.fixture
def catalog() -> Catalog:
    return compile_schema(Source("schema.pg", SCHEMA))


def text(*queries: str) -> Source:
    return Source("queries.gq", "\n".join(queries))


def test_the_only_query_of_a_text_needs_no_name(catalog: Catalog) -> None:
    compiled = compile_query(text(ADULTS), catalog)
    assert compiled.name == "adults"
    assert [each.name for each in compiled.parameters] == ["n"]


def test_of_several_queries_one_must_be_named(catalog: Catalog) -> None:
    source = text(ADULTS, RENAME)
    assert isinstance(compile_query(source, catalog, name="rename").ir, ir.Mutation)
    with pytest.raises(QueryNotFound) as caught:
        compile_query(source, catalog)
    assert caught.value.available == ("adults", "rename")


def test_a_name_that_is_not_there_is_not_found_even_beside_a_single_query(catalog: Catalog) -> None:
    with pytest.raises(QueryNotFound, match="query 'other' not found; the file holds: adults"):
        compile_query(text(ADULTS), catalog, name="other")


def test_an_empty_text_holds_no_query(catalog: Catalog) -> None:
    with pytest.raises(QueryNotFound):
        compile_query(text(""), catalog)


def test_a_wrong_query_does_not_stop_its_neighbours(catalog: Catalog) -> None:
    source = text(WRONG, ADULTS)
    assert compile_query(source, catalog, name="adults").name == "adults"
    with pytest.raises(QueryInvalid):
        compile_query(source, catalog, name="wrong")


def test_a_file_is_compiled_whole_or_refused_for_every_reason(catalog: Catalog) -> None:
    assert [each.name for each in compile_file(text(ADULTS, RENAME), catalog)] == [
        "adults",
        "rename",
    ]
    mixed = 'query mixed() { insert Person { name: "x" }  delete Person where name = "y" }'
    with pytest.raises(QueryInvalid) as caught:
        compile_file(text(WRONG, mixed, WRONG.replace("wrong", "worse")), catalog)
    assert [each.code for each in caught.value.findings] == ["T1", "D2", "T1"]


def test_a_query_compiled_before_is_not_compiled_again(catalog: Catalog) -> None:
    first = compile_query(text(ADULTS), catalog)
    assert compile_query(text(ADULTS), catalog) is first


def test_another_schema_gets_its_own_plan(catalog: Catalog) -> None:
    first = compile_query(text(ADULTS), catalog)
    wider = compile_schema(Source("schema.pg", SCHEMA.replace("I32?", "I64?")))
    assert compile_query(text(ADULTS), wider).ir != first.ir
    assert compile_query(text(ADULTS), catalog) is first


def test_writing_and_deleting_in_one_query_is_refused_after_its_types(catalog: Catalog) -> None:
    mixed = 'query mixed() { delete Person where name = "y"  insert Person { name: %s } }'
    with pytest.raises(QueryInvalid) as caught:
        compile_query(text(mixed % '"x"'), catalog)
    assert [each.code for each in caught.value.findings] == ["D2"]
    assert "query 'mixed'" in str(caught.value)
    with pytest.raises(QueryInvalid) as caught:
        compile_query(text(mixed % "3"), catalog)
    assert [each.code for each in caught.value.findings] == ["T3"]


def test_deletes_alone_and_writes_alone_are_fine(catalog: Catalog) -> None:
    deletes = 'query d() { delete Knows where from = "x"  delete Person where name = "x" }'
    writes = 'query w() { insert Person { name: "x" }  update Person set { age: 1 } where age = 2 }'
    assert len(compile_file(text(deletes, writes), catalog)) == 2


def test_a_watcher_is_told_what_every_pass_made_of_the_query(catalog: Catalog) -> None:
    source = text(ADULTS)
    seen: list[tuple[str, ir.Read]] = []
    compiled = compile_tree(
        parse(source).queries[0], catalog, source, lambda name, query: seen.append((name, query))
    )
    assert [name for name, _ in seen][-1] == "prune_columns"
    assert seen[-1][1] == compiled.optimised


def test_what_does_not_parse_is_refused_as_it_stands(catalog: Catalog) -> None:
    with pytest.raises(QueryInvalid, match="parse error"):
        compile_query(text("query adults( {"), catalog)
