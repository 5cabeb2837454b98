"""Random `.gq` trees and texts for Hypothesis; each tree is one the parser could have made."""

from hypothesis import strategies as st
from hypothesis.extra.lark import from_lark

from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import GRAMMAR, INTEGER_MAX, INTEGER_MIN, grammar
from omnigraph.lang.query.printer import print_expression

KEYWORDS = tuple(
    sorted(
        terminal.pattern.value
        for terminal in grammar().terminals
        if terminal.pattern.type == "str" and terminal.pattern.value[0].islower()
    )
)
"""Every word that means something somewhere, and is a legal name all the same."""

# ── leaves ───────────────────────────────────────────────────────────────────────────────────────

_IDENTIFIERS = (*KEYWORDS, "a", "b", "title", "_x", "not_yet", "limit10", "true_n", "isA")
_TYPES = ("Artwork", "String", "I64", "T_1", "Query")

identifiers = st.sampled_from(_IDENTIFIERS)
_texts = st.text(st.characters(codec="utf-8"), max_size=8)

_names = identifiers.map(ast.Name)
_edges = st.sampled_from([each for each in _IDENTIFIERS if each != "not"]).map(ast.Name)
_type_names = st.sampled_from((*_TYPES, "Vector")).map(ast.Name)
_variables = st.sampled_from((ast.WILDCARD, *_IDENTIFIERS)).map(ast.Variable)
_words = st.sampled_from([each for each in _IDENTIFIERS if each not in {"true", "false"}]).map(
    ast.Word
)
_property_refs = st.builds(ast.PropertyRef, _variables, _names)

_scalars = st.one_of(
    st.builds(
        ast.Literal,
        st.one_of(
            _texts,
            st.booleans(),
            st.sampled_from((INTEGER_MIN, -1, 0, 1, 42, INTEGER_MAX)),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
    ),
    st.builds(ast.DateLiteral, _texts),
    st.builds(ast.DateTimeLiteral, _texts),
)


def _list_literals(
    items: st.SearchStrategy[ast.LiteralValue],
) -> st.SearchStrategy[ast.LiteralValue]:
    return st.lists(items, max_size=3).map(lambda drawn: ast.ListLiteral(tuple(drawn)))


literals: st.SearchStrategy[ast.LiteralValue] = st.recursive(_scalars, _list_literals, max_leaves=4)
values: st.SearchStrategy[ast.Value] = st.one_of(
    literals, _variables, st.just(ast.Null()), st.just(ast.Now())
)

# ── expressions ──────────────────────────────────────────────────────────────────────────────────

_atoms: st.SearchStrategy[ast.Expression] = st.one_of(
    literals, _variables, _property_refs, _words, st.just(ast.Now())
)


def _text_matches(of: st.SearchStrategy[ast.Expression]) -> st.SearchStrategy[ast.TextMatch]:
    plain = st.sampled_from((ast.TextFunction.SEARCH, ast.TextFunction.MATCH_TEXT))
    fuzzy = st.just(ast.TextFunction.FUZZY)
    return st.one_of(
        st.builds(ast.TextMatch, plain, of, of),
        st.builds(ast.TextMatch, fuzzy, of, of, st.none() | of),
    )


_functions = st.sampled_from(("lower", "foo", "contains", "starts_with")).map(ast.Name)


def _conditions(of: st.SearchStrategy[ast.Expression]) -> st.SearchStrategy[ast.Expression]:
    several = st.lists(of, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(ast.Comparison, of, st.sampled_from(ast.Operator), of),
        st.builds(ast.Comparison, _variables, st.sampled_from(ast.Operator), _variables),
        st.builds(ast.NullTest, of, st.booleans()),
        st.builds(ast.Inversion, of),
        several.map(ast.AnyOf),
        several.map(ast.AllOf),
    )


def _scalar_calls(of: st.SearchStrategy[ast.Expression]) -> st.SearchStrategy[ast.Expression]:
    branches = st.lists(st.builds(ast.CaseArm, of, of), min_size=1, max_size=2).map(tuple)
    return st.one_of(
        st.builds(ast.Arithmetic, of, st.sampled_from(ast.ArithmeticOperator), of),
        st.builds(ast.Negative, of),
        st.builds(ast.Call, _functions, st.lists(of, max_size=3).map(tuple)),
        st.builds(ast.Cast, st.just(ast.Name("cast")), of, st.sampled_from(_TYPES).map(ast.Name)),
        st.builds(ast.CaseWhen, st.none() | of, branches, st.none() | of),
    )


def _calls(of: st.SearchStrategy[ast.Expression]) -> st.SearchStrategy[ast.Expression]:
    nearest = st.builds(ast.Nearest, _property_refs, of)
    bm25 = st.builds(ast.Bm25, of, of)
    return st.one_of(
        st.builds(
            ast.Aggregate,
            st.sampled_from(ast.AggregateFunction),
            of,
            st.booleans(),
            st.none() | of,
        ),
        _text_matches(of),
        _scalar_calls(of),
        _conditions(of),
        nearest,
        bm25,
        st.builds(ast.Rrf, nearest | bm25, nearest | bm25, st.none() | of),
    )


expressions: st.SearchStrategy[ast.Expression] = st.recursive(_atoms, _calls, max_leaves=6)

# ── conditions and clauses ───────────────────────────────────────────────────────────────────────

conditions: st.SearchStrategy[ast.Condition] = st.one_of(
    _conditions(expressions), _text_matches(_atoms), expressions
)

_matches = st.lists(st.builds(ast.Match, _names, values), max_size=2).map(tuple)
_counts = st.sampled_from((0, 1, 7, INTEGER_MAX))
_simple_clauses: st.SearchStrategy[ast.Clause] = st.one_of(
    st.builds(ast.Binding, _variables, _type_names, _matches),
    st.builds(
        ast.Traversal,
        source=_variables,
        edge_variable=st.none() | _variables,
        edge=_edges,
        undirected=st.booleans(),
        hops=st.none() | st.builds(ast.Hops, _counts, st.none() | _counts),
        target=_variables,
        path=st.none() | st.builds(ast.PathBinding, _variables, st.booleans(), st.none() | _names),
    ),
    st.builds(ast.Filter, conditions),
)


def _blocks(of: st.SearchStrategy[ast.Clause]) -> st.SearchStrategy[ast.Clause]:
    several = st.lists(of, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        several.map(ast.Negation),
        several.map(ast.OptionalMatch),
        several.map(ast.Existence),
        st.builds(
            ast.Measure,
            st.none()
            | st.builds(
                ast.Aggregate, st.sampled_from(ast.AggregateFunction), _property_refs, st.booleans()
            ),
            several,
            st.sampled_from([each for each in ast.Operator if not each.isidentifier()]),
            _atoms,
        ),
    )


clauses: st.SearchStrategy[ast.Clause] = st.recursive(_simple_clauses, _blocks, max_leaves=4)

# ── queries ──────────────────────────────────────────────────────────────────────────────────────

_nearest = st.builds(ast.Nearest, _property_refs, _atoms)
_orderable = expressions.map(lambda each: each.target if isinstance(each, ast.Nearest) else each)
_orderings = st.one_of(
    st.builds(ast.Ordering, _nearest, st.none()),
    st.builds(ast.Ordering, _orderable, st.none() | st.booleans()),
)
_projections = st.builds(ast.Projection, expressions, st.none() | _names)
_bounds = st.none() | _counts.map(ast.Literal) | _variables


@st.composite
def _reads(draw: st.DrawFn) -> ast.Read:
    return ast.Read(
        match=tuple(draw(st.lists(clauses, min_size=1, max_size=3))),
        returns=tuple(draw(st.lists(_projections, min_size=1, max_size=3))),
        having=draw(st.none() | conditions),
        order=tuple(draw(st.lists(_orderings, max_size=2))),
        limit=draw(_bounds),
        offset=draw(_bounds),
        unions=tuple(draw(st.lists(_unions(), max_size=1))),
        stages=tuple(draw(st.lists(_stages(), max_size=1))),
    )


@st.composite
def _stages(draw: st.DrawFn) -> ast.Read:
    return ast.Read(
        match=tuple(draw(st.lists(clauses, min_size=1, max_size=2))),
        returns=tuple(draw(st.lists(_projections, min_size=1, max_size=2))),
        having=draw(st.none() | conditions),
        order=tuple(draw(st.lists(_orderings, max_size=1))),
        limit=draw(_bounds),
        offset=draw(_bounds),
    )


@st.composite
def _unions(draw: st.DrawFn) -> ast.Union:
    part = ast.Read(
        match=tuple(draw(st.lists(clauses, min_size=1, max_size=2))),
        returns=tuple(draw(st.lists(_projections, min_size=1, max_size=2))),
        having=draw(st.none() | conditions),
        order=(),
        limit=None,
        offset=None,
    )
    return ast.Union(draw(st.booleans()), part)


_assigned = values | st.builds(ast.TypedEnd, _type_names, values)
_assignments = st.lists(st.builds(ast.Assignment, _names, _assigned), min_size=1, max_size=2).map(
    tuple
)
_symbols = st.sampled_from([each for each in ast.Operator if not each.isidentifier()])
_predicates = st.builds(ast.Predicate, _names, _symbols, values)
_statements = st.one_of(
    st.builds(ast.Insert, _type_names, _assignments),
    st.builds(ast.Update, _type_names, _assignments, _predicates),
    st.builds(ast.Delete, _type_names, _predicates),
)


@st.composite
def _mutations(draw: st.DrawFn) -> ast.Mutation:
    return ast.Mutation(tuple(draw(st.lists(_statements, min_size=1, max_size=3))))


_types = st.one_of(
    st.builds(ast.TypeRef, st.sampled_from(_TYPES), st.none(), st.booleans(), st.booleans()),
    st.builds(ast.TypeRef, st.none(), st.integers(0, 4096), st.just(False), st.booleans()),
)
_parameters = st.lists(
    st.builds(ast.Parameter, identifiers, _types), max_size=3, unique_by=lambda each: each.name
).map(tuple)
_notes = st.none() | _texts.map(lambda text: f"{text}.")


@st.composite
def queries(draw: st.DrawFn) -> ast.Query:
    return ast.Query(
        name=draw(_names),
        parameters=draw(_parameters),
        description=draw(_notes),
        instruction=draw(_notes),
        body=draw(_reads() | _mutations()),
    )


files: st.SearchStrategy[ast.File] = st.lists(
    queries(), max_size=2, unique_by=lambda each: each.name.text
).map(lambda drawn: ast.File(tuple(drawn)))

# ── texts ────────────────────────────────────────────────────────────────────────────────────────


def programs() -> st.SearchStrategy[str]:
    """Texts grown from the grammar itself, with a space around every token that is a word."""
    keywords = {
        terminal.name: st.just(f" {terminal.pattern.value} ")
        for terminal in grammar().terminals
        if terminal.pattern.type == "str" and terminal.pattern.value.isidentifier()
    }
    tokens = {
        "NAME": st.from_regex(r"[a-z_][A-Za-z0-9_]{0,3}", fullmatch=True),
        "TYPE_NAME": st.from_regex(r"[A-Z][A-Za-z0-9_]{0,3}", fullmatch=True),
        "VARIABLE": identifiers.map(lambda name: f"${name}"),
        "INT": st.integers(0, 300).map(str),
        "FLOAT": st.sampled_from(("0.0", "007.50", "3.14")),
        "NEGATIVE_INT": st.integers(-300, -1).map(str),
        "NEGATIVE_FLOAT": st.sampled_from(("-0.0", "-2.5")),
        "STRING": _texts.map(lambda text: print_expression(ast.Literal(text))),
    }
    # A comment grown from its own pattern could swallow the token after it.
    # After "/" it needs a space of its own, or the two are another comment.
    gaps = {"LINE_COMMENT": st.just(" // …\n"), "BLOCK_COMMENT": st.just(" /* … */")}
    spaced = {name: drawn.map(lambda text: f" {text} ") for name, drawn in tokens.items()}
    return from_lark(GRAMMAR.build(), explicit={**keywords, **spaced, **gaps})
