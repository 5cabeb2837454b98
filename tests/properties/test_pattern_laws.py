r"""Where Python's `re` means the same, a pattern finds the same; one by one and a column at a time.

The common ground: no `\d`, `\w` or `\s` (each has its own idea of them), no `$` (Python's also
stands before a last newline), and values too short for trying alternatives to take long.
"""

import re
from functools import partial

import pyarrow as pa
from hypothesis import example, given, settings, strategies as st

from omnigraph.catalog.model import Check, NodeType, Property
from omnigraph.catalog.regex import compile_pattern
from omnigraph.catalog.types import Scalar, ValueType
from omnigraph.engine.write.validate import find_value_violations
from omnigraph.pipeline.sources.values import RowByRowNeeded, check_rules

LETTERS = "abcé𝄞-.[ \n"

texts = st.text(LETTERS, max_size=8)
literals = st.sampled_from(LETTERS).map(re.escape)
ranges = st.sampled_from(["a-c", "é-𝄞", "a-a", r"\-", r"\[", r"\n", " ", "b", r"\xe9"])
classes = st.builds(
    "[{}{}]".format,
    st.sampled_from(["", "^"]),
    st.lists(ranges, min_size=1, max_size=3).map("".join),
)
atoms = literals | classes | st.sampled_from([".", "(?s:.)", "(?i:A)", "(?i:É)", "(?:)"])
counts = st.sampled_from(["*", "+", "?", "*?", "{0,2}", "{2}", "{1,}", "??"])


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    grouped = inner.map("(?:{})".format) | inner.map("({})".format)
    return st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join).map("(?:{})".format),
        st.builds("{}{}".format, grouped, counts),
    )


anchored = partial(st.builds, "{}{}{}".format)
patterns = anchored(
    st.sampled_from(["", "^", r"\A", "(?m)^"]),
    st.recursive(atoms, grow),
    st.sampled_from(["", "(?m:$)"]),
)


@given(patterns, st.lists(texts | st.none(), max_size=5))
@example("^(?:a+)+(?m:$)", ["aaa", None, "aaab"])
@settings(max_examples=500)
def test_both_ways_find_what_python_finds(pattern: str, values: list[str | None]) -> None:
    try:
        python = re.compile(pattern)
    except re.error:  # flags that Python wants at the start
        return
    wanted = [value is None or python.search(value) is not None for value in values]
    property_ = Property("p", ValueType(Scalar.STRING, nullable=True))
    type_ = NodeType("N", (property_,), constraints=(Check("p", pattern),))
    assert [not list(find_value_violations(type_, {"p": value})) for value in values] == wanted
    assert all(
        compile_pattern(pattern).is_found_in(value) is found
        for value, found in zip(values, wanted, strict=True)
        if value is not None
    )
    try:
        check_rules(type_, {"p": pa.array(values, pa.string())})
    except RowByRowNeeded:
        assert not all(wanted)
    else:
        assert all(wanted)
