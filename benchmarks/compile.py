"""How long it takes to turn text into checked programs and plans.

The baseline is the standard library's tokenizer, also pure Python, over a text of the same size.
"""

import io
import tokenize

from measure import Figure, best_of, report

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.compiler.compile import compile_query, compile_tree
from omnigraph.compiler.resolve import check_file
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Source

TYPES = 100
QUERIES = 200

SMALL = """
query small($lo: I64) {
  match { $a: Type1  $a link1 $b  $b.count >= $lo  not { $b link1 $_ } }
  return { $a.name, $b.title as title }
  order { title }
  limit 10
}
"""


def schema_text(types: int) -> str:
    nodes = [
        f"""
node Type{n} @description("type number {n}") {{
    name: String @key
    title: String @index
    count: I64?
    score: F64?
    kind: enum(plain, fancy, other)
    tags: [String]?
    made_on: Date?
    seen_at: DateTime?
    @range(count, 0..1000000)
}}"""
        for n in range(types)
    ]
    edges = [
        f"edge Link{n}: Type{n} -> Type{n} {{ since: Date?  weight: F64? }}" for n in range(types)
    ]
    return "\n".join([*nodes, *edges])


def queries_text(queries: int) -> str:
    return "\n".join(
        f"""
query q{n}($lo: I64, $word: String) @description("query number {n}") {{
  match {{
    $a: Type{n % TYPES} {{ kind: "plain" }}
    $a link{n % TYPES} $b
    $b.count >= $lo
    $a link{n % TYPES}{{1,3}} $c
    $c.title contains $word or $c.score > 0.5
    not {{ $c link{n % TYPES} $_ }}
  }}
  return {{ $a.name, $b.title as title, count($c) as reached }}
  order {{ reached desc, title }}
  limit 20
}}"""
        for n in range(queries)
    )


def compile_all(text: str, catalog: Catalog) -> None:
    source = Source("bench.gq", text)
    results = check_file(parse(source), catalog, source)
    assert all(not each.diagnostics for each in results)


def tokens(text: str) -> None:
    python = text.replace("$", "_").replace("//", "#")
    try:
        for _ in tokenize.generate_tokens(io.StringIO(python).readline):
            pass
    except (tokenize.TokenError, SyntaxError, IndentationError):
        raise AssertionError("the baseline has to reach the end of the text") from None


def main() -> None:
    schema = Source("bench.pg", schema_text(TYPES))
    text, tenfold = queries_text(QUERIES), queries_text(QUERIES * 10)
    catalog = compile_schema(schema)
    compile_all(text, catalog)  # grammars are built once per process

    schema_s = best_of(3, lambda: compile_schema(schema))
    queries_s = best_of(3, lambda: compile_all(text, catalog))
    tenfold_s = best_of(2, lambda: compile_all(tenfold, catalog))
    baseline_s = best_of(3, lambda: tokens(text))

    def fresh() -> None:
        source = Source("small.gq", SMALL)
        compile_tree(parse(source).queries[0], catalog, source)

    fresh()
    small_s = best_of(50, fresh)
    compile_query(Source("small.gq", SMALL), catalog)
    cached_s = best_of(50, lambda: compile_query(Source("small.gq", SMALL), catalog))

    total_s = schema_s + queries_s
    report(
        "compile",
        [
            Figure(f"schema of {TYPES} node and {TYPES} edge types", schema_s),
            Figure(
                f"{QUERIES} queries, parsed and checked",
                queries_s,
                "tokenize",
                queries_s / baseline_s,
            ),
            Figure("both", total_s, target="≤ 1500 ms", met=total_s <= 1.5),
            Figure(
                f"{QUERIES * 10} queries",
                tenfold_s,
                f"{QUERIES} queries",
                tenfold_s / queries_s,
                "≤ 12",
                tenfold_s / queries_s <= 12,
            ),
            Figure("one small query, text to plan", small_s, target="≤ 5 ms", met=small_s <= 0.005),
            Figure(
                "the same again, from the cache",
                cached_s,
                "text to plan",
                cached_s / small_s,
                "≤ 0.05",
                cached_s / small_s <= 0.05,
            ),
        ],
    )


if __name__ == "__main__":
    main()
