"""A schema in few words, for a reader who pays by the token: whole, by types, or by a question.

The text is a schema again, one line for each type. What a question touches is found by its words:
in names, descriptions and enum values. Types that are touched are joined by the shortest chains of
edges between them, so that a query can walk from one to the other.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from omnigraph.catalog.model import Catalog, EdgeType, NodeType, Property, spell_ends
from omnigraph.catalog.names import spell_all

CHARACTERS_PER_TOKEN = 3.5
"""What tokenizers of language models make of names and punctuation, about."""

Samples = Mapping[str, Mapping[str, Sequence[object]]]
"""Some values of properties, by node type and property."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STEM_MIN = 4
_ENDING_MAX = 3


@dataclass(frozen=True, slots=True)
class SchemaOutline:
    text: str
    tokens: int
    """An estimate."""
    types: tuple[str, ...]
    omitted: tuple[str, ...] = ()
    """Types that were asked for or touched, and for which the budget had no room."""


def outline_schema(
    catalog: Catalog,
    *,
    types: Iterable[str] = (),
    question: str | None = None,
    budget: int | None = None,
    samples: Samples | None = None,
) -> SchemaOutline:
    """Every name of `types` is a type of the catalog. Without types and question: everything."""
    chosen = _choose(catalog, tuple(types), question)
    for detail in (_Detail(samples or {}), _Detail(), _Detail(has_descriptions=False), _KEYS):
        outline = _write(catalog, chosen, detail)
        if budget is None or outline.tokens <= budget:
            return outline
    return _fit(catalog, chosen, budget or 0)


def estimate_tokens(text: str) -> int:
    return round(len(text) / CHARACTERS_PER_TOKEN + 0.5)


# ── what to show ─────────────────────────────────────────────────────────────────────────────────


def choose_types(catalog: Catalog, types: Iterable[str], question: str | None) -> tuple[str, ...]:
    """The names that an outline would show, most relevant first."""
    return tuple(_choose(catalog, tuple(types), question))


def _choose(catalog: Catalog, types: tuple[str, ...], question: str | None) -> list[str]:
    everything = [_name_of(each) for each in _types_of(catalog)]
    if not types and question is None:
        return everything
    scores = dict.fromkeys(types, 1)
    if question is not None:
        asked = words_of(question)
        found = {_name_of(each): _score(each, asked) for each in _types_of(catalog)}
        scores |= {name: score for name, score in found.items() if score}
    if not scores:
        return everything  # the words say nothing about the schema
    touched = sorted(scores, key=lambda name: (-scores[name], name))
    return _join(catalog, touched)


def _types_of(catalog: Catalog) -> list[NodeType | EdgeType]:
    """Of an edge over several pairs of ends, the first pair stands for all."""
    return [*catalog.nodes, *(catalog.edges_named(each)[0] for each in catalog.edge_names)]


def _name_of(owner: NodeType | EdgeType) -> str:
    return owner.family if isinstance(owner, EdgeType) else owner.name


def words_of(text: str) -> frozenset[str]:
    """`madeOn`, `made_on` and «made on» have the same words."""
    words = (each.lower() for each in _WORD.findall(text))
    return frozenset(f"{each[:-3]}y" if each.endswith("ies") else each for each in words)


def _score(owner: NodeType | EdgeType, asked: frozenset[str]) -> int:
    """A name counts more than a property, and a property more than an enum value."""
    score = 4 * _count_met(words_of(_name_of(owner)), asked)
    if isinstance(owner, NodeType):
        score += 4 * _count_met(words_of(" ".join(owner.implements)), asked)
    score += _count_met(words_of(_description_of(owner)), asked)
    for each in owner.properties:
        score += 2 * _count_met(words_of(each.spelling), asked)
        score += _count_met(words_of(_description_of(each)), asked)
        score += _count_met(words_of(" ".join(each.type.enum_values or ())), asked)
    return score


def _count_met(words: frozenset[str], asked: frozenset[str]) -> int:
    return sum(any(_are_akin(word, other) for other in asked) for word in words)


def _are_akin(one: str, other: str) -> bool:
    """Equal but for an ending: `artwork` and `artworks`, `inspired` and `inspire`."""
    short, long = sorted((one, other), key=len)
    if short == long:
        return True
    stem = short[: max(_STEM_MIN, len(short) - 1)]
    return (
        len(short) >= _STEM_MIN and len(long) - len(stem) <= _ENDING_MAX and long.startswith(stem)
    )


def _join(catalog: Catalog, touched: Sequence[str]) -> list[str]:
    """The touched types, what joins them, and the edges among all of these."""
    nodes = dict.fromkeys(each for each in touched if catalog.node(each) is not None)
    for name in touched:
        for edge in catalog.edges_named(name):
            nodes |= dict.fromkeys((edge.source, edge.target))
    for one, other in combinations(list(nodes), 2):
        nodes |= dict.fromkeys(_chain(catalog, one, other))
    edges = [each.family for each in catalog.edges if {each.source, each.target} <= nodes.keys()]
    return list(dict.fromkeys((*touched, *nodes, *edges)))


def _chain(catalog: Catalog, start: str, end: str) -> list[str]:
    """The node types on a shortest chain of edges, in any direction; none if there is no chain."""
    came_from: dict[str, str | None] = {start: None}
    waiting = deque([start])
    while waiting and end not in came_from:
        here = waiting.popleft()
        for edge in catalog.edges_at(here):
            there = edge.target if edge.source == here else edge.source
            if there not in came_from:
                came_from[there] = here
                waiting.append(there)
    chain: list[str] = []
    step = end if end in came_from else None
    while step is not None:
        chain.append(step)
        step = came_from[step]
    return chain


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Detail:
    samples: Samples = field(default_factory=dict)
    has_descriptions: bool = True
    only_keys: bool = False


_KEYS = _Detail(has_descriptions=False, only_keys=True)


def _write(catalog: Catalog, names: Sequence[str], detail: _Detail) -> SchemaOutline:
    lines = [_line(catalog, name, detail) for name in _in_order(catalog, names)]
    text = "\n".join((*_interfaces(catalog, names, detail), *lines))
    return SchemaOutline(text, estimate_tokens(text), tuple(names))


def _fit(catalog: Catalog, names: Sequence[str], budget: int) -> SchemaOutline:
    """As many types as the budget allows, the most relevant first; at least one."""
    kept = list(names)
    while len(kept) > 1 and _write(catalog, kept, _KEYS).tokens > budget:
        kept.pop()
    shown = _write(catalog, kept, _KEYS)
    return SchemaOutline(shown.text, shown.tokens, shown.types, tuple(names[len(kept) :]))


def _in_order(catalog: Catalog, names: Sequence[str]) -> list[str]:
    """Nodes before edges, each as the catalog lists them."""
    wanted = set(names)
    return [name for each in _types_of(catalog) if (name := _name_of(each)) in wanted]


def _interfaces(catalog: Catalog, names: Sequence[str], detail: _Detail) -> Iterator[str]:
    """What the nodes that are shown implement: a query may name it instead of all of them."""
    shown = [node for name in names if (node := catalog.node(name)) is not None]
    implemented = {each for node in shown for each in node.implements}
    for interface in catalog.interfaces:
        if interface.name in implemented:
            held = () if detail.only_keys else interface.properties
            body = "  ".join(f"{each.spelling}: {each.type}" for each in held)
            yield f"interface {interface.name} {{ {body} }}"


def _line(catalog: Catalog, name: str, detail: _Detail) -> str:
    node, edges = catalog.node(name), catalog.edges_named(name)
    owner = node or edges[0]
    key = owner.key
    head = _node_head(owner) if isinstance(owner, NodeType) else _edge_head(edges)
    shown = [each for each in owner.properties if not detail.only_keys or each.name in key]
    held = detail.samples.get(name, {})
    parts = [_property(each, key, held.get(each.spelling, ()), detail) for each in shown]
    parts += [f"@key({spell_all(key)})"] if len(key) > 1 else []
    body = "  ".join(parts)
    line = f"{head} {{ {body} }}" if body or node is not None else head
    description = _description_of(owner) if detail.has_descriptions else ""
    return f"{line}  // {description}" if description else line


def _node_head(node: NodeType) -> str:
    implements = f" implements {', '.join(node.implements)}" if node.implements else ""
    return f"node {node.name}{implements}"


def _edge_head(edges: Sequence[EdgeType]) -> str:
    edge = edges[0]
    card, low, high = "", edge.cardinality.low, edge.cardinality.high
    if low or high is not None:
        card = f" @card({low}..{'' if high is None else high})"
    return f"edge {edge.family}: {spell_ends(edges)}{card}"


def _property(
    each: Property, key: tuple[str, ...], samples: Sequence[object], detail: _Detail
) -> str:
    text = f"{each.spelling}: {each.type}{' @key' if key == (each.name,) else ''}"
    remarks = [_description_of(each)] if detail.has_descriptions else []
    remarks += [f"e.g. {', '.join(map(str, samples))}"] if samples else []
    said = "; ".join(filter(None, remarks)).replace("*/", "* /")
    return f"{text} /* {said} */" if said else text


def _description_of(owner: NodeType | EdgeType | Property) -> str:
    found = next((each.value for each in owner.annotations if each.name == "description"), None)
    return " ".join((found or "").split())
