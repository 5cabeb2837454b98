"""`describe`: the schema of a graph in few tokens, with sample values if the caller wants them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.catalog.outline import Samples, SchemaOutline, choose_types, outline_schema
from omnigraph.compiler.spelling import spell_edge
from omnigraph.errors import TypeUnknown, UsageError

SAMPLES_MAX: Final = 20
ROWS_PER_SAMPLE: Final = 10
"""Values repeat: so many rows are read for each sample."""
SHOWN_MAX: Final = 40

ReadRows = Callable[[str], Iterable[Mapping[str, object]]]
"""Runs a query."""


def describe_graph(
    catalog: Catalog,
    read: ReadRows,
    *,
    types: Sequence[str] = (),
    question: str | None = None,
    budget: int | None = None,
    samples: int = 0,
) -> SchemaOutline:
    """Raises TypeUnknown, UsageError."""
    for name in types:
        if catalog.node(name) is None and name not in catalog.edge_names:
            raise TypeUnknown(name)
    if not 0 <= samples <= SAMPLES_MAX:
        raise UsageError(f"samples is between 0 and {SAMPLES_MAX}, not {samples}")
    if budget is not None and budget < 1:
        raise UsageError(f"a budget is at least one token, not {budget}")
    held: Samples = {}
    if samples:
        chosen = choose_types(catalog, types, question)
        held = {each: _sample(catalog, each, read, samples) for each in chosen}
    return outline_schema(catalog, types=types, question=question, budget=budget, samples=held)


def outline_document(outline: SchemaOutline) -> dict[str, Any]:
    return {
        "text": outline.text,
        "tokens": outline.tokens,
        "types": list(outline.types),
        "omitted": list(outline.omitted),
    }


def _sample(catalog: Catalog, name: str, read: ReadRows, count: int) -> dict[str, tuple[str, ...]]:
    """Distinct values of each property that a line can show."""
    node, edges = catalog.node(name), catalog.edges_named(name)
    properties = (node or edges[0]).properties
    names = [each.spelling for each in properties if _is_shown(each.type)]
    if not names:
        return {}
    columns = ", ".join(f"$x.{each} as {each}" for each in names)
    pattern = _walk(edges) if node is None else f"$x: {name}"
    program = f"query q() {{ match {{ {pattern} }} return {{ {columns} }}"
    rows = list(read(f"{program} limit {count * ROWS_PER_SAMPLE} }}"))
    return {each: tuple(_distinct((row[each] for row in rows), count)) for each in names}


def _walk(edges: Sequence[EdgeType]) -> str:
    """Along the edges of one name, as they point."""
    sources, targets = (
        " | ".join(sorted(ends))
        for ends in ({each.source for each in edges}, {each.target for each in edges})
    )
    return f"$source: {sources} $target: {targets} $source $x:{spell_edge(edges[0].family)} $target"


def _is_shown(value_type: Any) -> bool:
    return not (value_type.is_vector or value_type.is_blob or value_type.enum_values)


def _distinct(values: Iterable[object], count: int) -> Iterator[str]:
    seen = dict.fromkeys(str(each) for each in values if each is not None)
    for text in list(seen)[:count]:
        yield text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"
