import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.compiler.lint import LintReport, SchemaFile, SchemaGraph, lint
from omnigraph.lang.source import Source

SCHEMA = """
node Gallery { code: String @key  title: String?  floor: I32?  visits: U64 }
node Artwork {
  ref: String @key
  title: String
  medium: enum(oil, ink)
  tags: [String]?
  made_on: Date?
  vec: Vector(3)? @embed(title)
}
edge Hangs: Artwork -> Gallery
edge Inspired: Artwork -> Artwork
edge Contains: Gallery -> Artwork
"""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return compile_schema(Source("schema.pg", SCHEMA))


def report(catalog: Catalog, text: str) -> LintReport:
    return lint(Source("q.gq", text), catalog, schema_source=SchemaFile("s.pg"))


def operation_of(catalog: Catalog, body: str) -> dict[str, object]:
    found = report(catalog, f"query q() {{ {body} }}").results[0]
    assert found.operation is not None, found.error
    return found.operation.to_json()


def test_a_file_without_faults_gives_the_whole_document(catalog: Catalog) -> None:
    text = "query q() { match { $g: Gallery } return { $g.floor } }"
    assert report(catalog, text).to_json() == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": "s.pg"},
        "query_path": "q.gq",
        "queries_processed": 1,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "results": [
            {
                "name": "q",
                "kind": "read",
                "status": "ok",
                "operation": {
                    "result": [{"name": "floor", "kind": "int", "nullable": True}],
                    "reads": [{"kind": "node", "type_name": "Gallery"}],
                    "writes": [],
                },
            }
        ],
        "findings": [],
    }


def test_the_schema_may_come_from_a_graph(catalog: Catalog) -> None:
    document = lint(Source("q", ""), catalog, schema_source=SchemaGraph("mem://g")).to_json()
    assert document["schema_source"] == {"kind": "graph", "uri": "mem://g"}
    assert document["queries_processed"] == 0
    assert document["status"] == "ok"


def test_a_text_that_does_not_parse_is_one_finding_and_no_result(catalog: Catalog) -> None:
    document = report(catalog, "query q( {\n query r( {").to_json()
    assert document["status"] == "error"
    assert document["errors"] == 1
    assert document["queries_processed"] == 0
    assert document["results"] == []
    findings = document["findings"]
    assert isinstance(findings, list)
    assert [(each["severity"], each["code"]) for each in findings] == [("error", "Q000")]
    assert "parse error" in findings[0]["message"]


def test_a_wrong_query_tells_every_reason_and_its_neighbours_are_still_judged(
    catalog: Catalog,
) -> None:
    text = """
    query wrong() { match { $g: Galery  $a: Artwork { titel: "x" } } return { $g.code } }
    query right() { match { $g: Gallery } return { $g.code } }
    """
    found = report(catalog, text)
    assert [(each.name, each.status) for each in found.results] == [
        ("wrong", "error"),
        ("right", "ok"),
    ]
    wrong = found.results[0].to_json()
    assert "operation" not in wrong
    assert "warnings" not in wrong
    error = wrong["error"]
    assert isinstance(error, str)
    assert error.splitlines() == [
        "type error: there is no node type 'Galery' [T1]",
        "type error: Artwork has no property 'titel' [T2]",
    ]
    assert (found.errors, found.status) == (1, "error")


def test_a_mutation_without_parameters_is_warned_about_once(catalog: Catalog) -> None:
    found = report(catalog, 'query q() { delete Gallery where code = "x" }')
    assert len(found.results[0].warnings) == 1
    assert (found.warnings, found.errors, found.status) == (1, 0, "ok")


def test_a_text_that_is_no_member_of_the_enum_is_warned_about(catalog: Catalog) -> None:
    text = """query q() {
      match {
        $a: Artwork
        $a.medium = "oill" or $a.medium != "ink" or not ("photo" = $a.medium)
        not { $a.medium in ["oil", "inc"] }
        $a.title = "oill"
      }
      return { $a.ref }
    }"""
    found = report(catalog, text)
    assert found.results[0].warnings == (
        "4:9: the enum medium of `$a` has no 'oill'; did you mean 'oil'?",
        "4:58: the enum medium of `$a` has no 'photo'; it has ink, oil",
        "5:15: the enum medium of `$a` has no 'inc'; did you mean 'ink'?",
    )
    assert (found.warnings, found.status) == (3, "ok")


def test_mixing_writes_and_deletes_is_not_linted(catalog: Catalog) -> None:
    text = """query q($x: String) {
      insert Gallery { code: $x, visits: 1 }
      delete Gallery where code = $x
    }"""
    assert report(catalog, text).status == "ok"


def test_l201_names_the_nullable_properties_that_no_valid_update_sets(catalog: Catalog) -> None:
    text = """
    query b($x: String) { update Artwork set { title: $x } where ref = $x }
    query a($x: String) { update Artwork set { tags: null } where ref = $x }
    query c($x: String) { update Artwork set { made_on: "wrong" } where ref = $x }
    query d($x: String) { update Gallery set { title: $x, floor: 1 } where code = $x }
    """
    found = report(catalog, text)
    assert [(each.code, each.type_name, each.property) for each in found.findings] == [
        ("L201", "Artwork", "made_on")
    ]
    assert found.findings[0].query_names == ("a", "b")
    assert found.warnings == 1


def test_l201_findings_are_sorted_by_type_and_property(catalog: Catalog) -> None:
    text = """
    query g($x: U64) { update Gallery set { visits: $x } where visits = $x }
    query a($x: String) { update Artwork set { title: $x } where ref = $x }
    """
    names = [(each.type_name, each.property) for each in report(catalog, text).findings]
    assert names == [
        ("Artwork", "made_on"),
        ("Artwork", "tags"),
        ("Gallery", "floor"),
        ("Gallery", "title"),
    ]


def test_columns_are_described_by_the_names_and_kinds_generated_code_wants(
    catalog: Catalog,
) -> None:
    body = """
    match { $g: Gallery  optional { $g contains $a } }
    return { $g, $a, $g.visits, $g.floor as floor, $a.tags, $a.vec, $a.made_on, $a.medium, now(),
             "x" as word, true as yes, 1.5 as half }
    """
    assert operation_of(catalog, body)["result"] == [
        {"name": "g", "kind": "object", "nullable": False},
        {"name": "a", "kind": "object", "nullable": True},
        {"name": "visits", "kind": "bigint", "nullable": False},
        {"name": "floor", "kind": "int", "nullable": True},
        {"name": "tags", "kind": "list", "nullable": True, "item_kind": "string"},
        {"name": "vec", "kind": "vector", "nullable": True, "vector_dim": 3},
        {"name": "made_on", "kind": "date", "nullable": True},
        {"name": "medium", "kind": "string", "nullable": True},
        {"name": "now", "kind": "datetime", "nullable": False},
        {"name": "word", "kind": "string", "nullable": False},
        {"name": "yes", "kind": "bool", "nullable": False},
        {"name": "half", "kind": "float", "nullable": False},
    ]


def test_an_aggregate_without_alias_is_called_by_its_function(catalog: Catalog) -> None:
    body = "match { $a: Artwork } return { count($a), min($a.made_on) }"
    assert operation_of(catalog, body)["result"] == [
        {"name": "count", "kind": "bigint", "nullable": False},
        {"name": "min", "kind": "date", "nullable": True},
    ]


@pytest.mark.parametrize(
    ("body", "reads", "writes"),
    [
        ("match { $a: Artwork } return { $a.ref }", ["node:Artwork"], []),
        (
            "match { $a: Artwork  not { $a hangs $_ } } return { $a.ref }",
            ["edge:Hangs", "node:Artwork", "node:Gallery"],
            [],
        ),
        (
            "match { $a: Artwork optional { $a inspired $b not { $g contains $b } } } return { 1 }",
            ["edge:Contains", "edge:Inspired", "node:Artwork", "node:Gallery"],
            [],
        ),
        (
            'insert Gallery { code: "x", visits: 1 }',
            ["node:Gallery"],
            ["node:Gallery"],
        ),
        (
            'insert Hangs { from: "x", to: "y" }',
            ["edge:Hangs", "node:Artwork", "node:Gallery"],
            ["edge:Hangs"],
        ),
        ('delete Hangs where from = "x"', ["edge:Hangs"], ["edge:Hangs"]),
        (
            'delete Gallery where code = "x"',
            ["edge:Contains", "edge:Hangs", "node:Gallery"],
            ["edge:Contains", "edge:Hangs", "node:Gallery"],
        ),
        (
            'update Artwork set { title: "x" } where ref = "y"',
            ["node:Artwork"],
            ["node:Artwork"],
        ),
    ],
)
def test_tables_are_told_conservatively(
    catalog: Catalog, body: str, reads: list[str], writes: list[str]
) -> None:
    operation = operation_of(catalog, body)

    def spelled(key: str) -> list[str]:
        uses = operation[key]
        assert isinstance(uses, list)
        return [f"{each['kind']}:{each['type_name']}" for each in uses]

    assert spelled("reads") == reads
    assert spelled("writes") == writes


def test_people_get_a_line_for_each_thing_and_a_summary(catalog: Catalog) -> None:
    text = """
    query wrong() { match { $g: Galery } return { $g.code } }
    query scrap() { delete Artwork where ref = "x" }
    """
    assert list(report(catalog, text).lines()) == [
        "ERROR query 'wrong' (read)",
        "      q.gq:2:33: type error: there is no node type 'Galery' [T1]",
        "        2 |     query wrong() { match { $g: Galery } return { $g.code } }",
        "          |                                 ^^^^^^",
        "        hint: did you mean 'Gallery'?",
        "      fix 2:33: write `Gallery`",
        "OK    query 'scrap' (mutation)",
        "WARN  query 'scrap': the mutation declares no parameters, so it does the same every time",
        "INFO  Lint complete: queries 2, errors 1, warnings 1, infos 0",
    ]
