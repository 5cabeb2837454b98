"""A refused text as the proposals see it.

The text may not parse, so all of this is read from its words: which variables there are, what they
are bound to, which parameters are declared. It only has to be right often enough, because every
proposal is checked by the compiler.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Final

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.catalog.types import Scalar
from omnigraph.compiler.spelling import closest, spell_edge
from omnigraph.lang.source import Span

_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_QUERY: Final = re.compile(r"\bquery\s+[A-Za-z_]")
_BINDING: Final = re.compile(r"\$(\w+)\s*:\s*([A-Z]\w*)")
_WALK: Final = re.compile(
    r"\$(\w+)\s+(?:\$(\w+)\s*:\s*)?<?([a-z_]\w*)>?\s*(?:\{[^{}]*\})?\s+\$(\w+)"
)
_HEAD: Final = re.compile(r"\bquery\s+\w+\s*\(([^()]*(?:\(\d+\)[^()]*)*)\)")
_PARAMETER: Final = re.compile(r"\$(\w+)\s*:")

SCALARS: Final = {
    "string": Scalar.STRING,
    "str": Scalar.STRING,
    "text": Scalar.STRING,
    "varchar": Scalar.STRING,
    "char": Scalar.STRING,
    "uuid": Scalar.STRING,
    "int": Scalar.I64,
    "integer": Scalar.I64,
    "long": Scalar.I64,
    "bigint": Scalar.I64,
    "number": Scalar.F64,
    "int32": Scalar.I32,
    "int64": Scalar.I64,
    "uint32": Scalar.U32,
    "uint64": Scalar.U64,
    "float": Scalar.F64,
    "double": Scalar.F64,
    "decimal": Scalar.F64,
    "float32": Scalar.F32,
    "float64": Scalar.F64,
    "bool": Scalar.BOOL,
    "boolean": Scalar.BOOL,
    "date": Scalar.DATE,
    "datetime": Scalar.DATETIME,
    "timestamp": Scalar.DATETIME,
    "blob": Scalar.BLOB,
}
"""What other languages call the types of parameters, in lower case."""


SOURCES: Final = frozenset(
    {"from", "fromid", "src", "srcid", "source", "sourceid", "start", "startid"}
)
"""What other languages call the end where an edge starts, in small letters."""

TARGETS: Final = frozenset({"to", "toid", "dst", "dstid", "target", "targetid", "end", "endid"})


class RefusedProgram:
    """One text, and the query of it that holds the fault."""

    def __init__(self, text: str, catalog: Catalog, at: int) -> None:
        self.text = text
        self.catalog = catalog
        self.masked = mask(text)
        starts = [match.start() for match in _QUERY.finditer(self.masked)]
        self.start = max((each for each in starts if each <= at), default=0)
        self.end = min((each for each in starts if each > at), default=len(text))

    def slice(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def finditer(self, pattern: str, flags: int = 0) -> Iterator[re.Match[str]]:
        """Matches in the query that holds the fault, outside of strings and comments."""
        yield from re.compile(pattern, flags).finditer(self.masked, self.start, self.end)

    def near(self, pattern: str, span: Span, flags: int = 0) -> Iterator[re.Match[str]]:
        """Those that touch a span."""
        for match in self.finditer(pattern, flags):
            if match.start() <= span.end and match.end() >= span.start:
                yield match

    def group(self, match: re.Match[str], number: int | str = 0) -> str:
        """What a group of a match holds in the text itself."""
        start, end = match.span(number)
        return self.text[start:end]

    def block_start(self, at: int) -> int | None:
        """The position behind the brace of the block that holds this position."""
        depth = 0
        for place in range(at - 1, self.start - 1, -1):
            depth += (self.masked[place] == "}") - (self.masked[place] == "{")
            if depth < 0:
                return place + 1
        return None

    @cached_property
    def head(self) -> re.Match[str] | None:
        return next(self.finditer(_HEAD.pattern), None)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return () if self.head is None else tuple(_PARAMETER.findall(self.head[1]))

    @cached_property
    def types(self) -> dict[str, NodeType | EdgeType]:
        """What each variable is bound to, as far as bindings and traversals say it."""
        found: dict[str, NodeType | EdgeType] = {}
        for match in self.finditer(_BINDING.pattern):
            if (node := self.catalog.node(match[2])) is not None:
                found.setdefault(match[1], node)
        walks = [match.groups() for match in self.finditer(_WALK.pattern)]
        for _ in range(2):
            for left, bound, name, right in walks:
                if (edge := self.catalog.edge_named(name)) is not None:
                    self._infer(edge, left, bound, right, found)
        found.pop("_", None)
        return found

    def _infer(
        self,
        edge: EdgeType,
        left: str,
        bound: str | None,
        right: str,
        found: dict[str, NodeType | EdgeType],
    ) -> None:
        if bound is not None:
            found.setdefault(bound, edge)
        is_reversed = (known := found.get(left)) is not None and known.name == edge.target
        is_reversed |= (known := found.get(right)) is not None and known.name == edge.source
        ends = (edge.target, edge.source) if is_reversed else (edge.source, edge.target)
        for variable, name in zip((left, right), ends, strict=True):
            if (node := self.catalog.node(name)) is not None:
                found.setdefault(variable, node)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Those that are bound to a node, in the order of their bindings."""
        return tuple(name for name, each in self.types.items() if isinstance(each, NodeType))

    def owners(self, name: str) -> list[str]:
        """The variables whose type has this property."""
        return [each for each, of_type in self.types.items() if of_type.named(name) is not None]

    def edges_between(self, left: str | None, right: str | None) -> list[EdgeType]:
        """The edge types that join two node types; None is any."""
        return [
            edge
            for edge in self.catalog.edges
            if _joins(edge.source, edge.target, left, right)
            or _joins(edge.target, edge.source, left, right)
        ]

    def end_word(self, word: str, span: Span) -> str | None:
        """`from` or `to`, where an insert of an edge calls its end otherwise."""
        folded = _fold(word)
        heads = [each for each in self.finditer(r"\binsert\s+(\w+)") if each.end() <= span.start]
        edges = self.catalog.edges_named(heads[-1][1]) if heads else ()
        if not edges:
            return None
        names = folded.removesuffix("id")
        sources, targets = (
            {_fold(each) for each in ends}
            for ends in zip(*((e.source, e.target) for e in edges), strict=True)
        )
        if folded in SOURCES or (names in sources and names not in targets):
            return "from"
        return "to" if folded in TARGETS or (names in targets and names not in sources) else None

    def edge_word(self, name: str) -> str | None:
        """The spelling, in a query, of the edge type that a name may mean."""
        return find_name(name, map(spell_edge, self.catalog.edge_names))


def find_name(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a name means: alike but for case and underscores, or close to it."""
    known = sorted(set(candidates))
    for reading in (_fold, _singular):
        same = [each for each in known if reading(each) == reading(name)]
        if len(same) == 1:
            return same[0]
    best = closest(name, known)
    if best is not None:
        return best
    folded = _fold(name)
    within = [each for each in known if len(each) > 2 and _is_part(_fold(each), folded)]
    return within[0] if len(within) == 1 else None


def fresh_name(program: RefusedProgram, name: str, given: Collection[str] = ()) -> str:
    """A name that no variable and no parameter of the program has, and that was not given yet."""
    taken = {*re.findall(r"\$?\b(\w+)", program.masked), *given}
    return next(each for at in range(1_000) if (each := f"{name}{at or ''}") not in taken)


def _is_part(candidate: str, name: str) -> bool:
    """`fullname` for `name`, `displaytitle` for `title`, `name` for `namefirst`."""
    return name.endswith(candidate) or name.startswith(candidate) or candidate.endswith(name)


def _fold(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_PLURALS: Final = {"people": "person", "children": "child", "men": "man", "women": "woman"}


def _singular(name: str) -> str:
    folded = _fold(name)
    if folded in _PLURALS:
        return _PLURALS[folded]
    if folded.endswith("ies"):
        return f"{folded[:-3]}y"
    return folded.removesuffix("s")


def _joins(source: str, target: str, left: str | None, right: str | None) -> bool:
    return left in (None, source) and right in (None, target)


def mask(text: str) -> str:
    """The text with strings and comments blanked, character by character."""
    return _QUOTED.sub(_mask, text)


def _mask(match: re.Match[str]) -> str:
    """Same length: quotes stay, so that a pattern sees that there is a string."""
    found = match[0]
    if found.startswith('"'):
        return f'"{"~" * (len(found) - 2)}"'
    return "".join(each if each == "\n" else " " for each in found)
