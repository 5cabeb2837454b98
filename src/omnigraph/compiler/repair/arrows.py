"""The arrow patterns of Cypher, as bindings and traversals.

`(p:Person {name: "Ada"})-[:KNOWS*1..2]->(f)` is `$p: Person {name: "Ada"}  $p knows{1,2} $f`, and
`(p)-[:KNOWS|FOLLOWS]->(f)` is `$p knows|follows $f`. A chain may mix both languages:
`$p -[:KNOWS]-> $f` is common.
"""

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.catalog.model import EdgeType
from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.foreign import split
from omnigraph.compiler.repair.program import RefusedProgram, find_name, fresh_name
from omnigraph.compiler.spelling import spell_edge
from omnigraph.lang.source import Span

_NODE: Final = re.compile(
    r"\(\s*\$?(?P<name>\w+)?\s*(?::\s*(?P<type>\w+(?:\s*\|\s*:?\w+)*))?\s*(?P<matches>\{[^{}]*\})?\s*\)"
    r"|\$(?P<bare>\w+)(?!\s*:)"
)
_HOPS: Final = r"(?P<hops>\*\s*(?P<low>\d+)?(?:\s*(?P<dots>\.\.)\s*(?P<high>\d+)?)?)?"
_WORDS: Final = r"\w+(?:\s*\|\s*:?\w+)*"
"""Several types are written `KNOWS|FOLLOWS`, or `KNOWS|:FOLLOWS`."""
_BOUND: Final = r"(?:\$?(?P<bound>\w+)\s*)?"
_MATCHES: Final = r"(?P<matches>\{[^{}]*\})?"
_BETWEEN: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\s*(?P<back><)?-\s*\[\s*{_BOUND}:\s*(?P<edge>{_WORDS})\s*{_HOPS}\s*{_MATCHES}\s*\]\s*-(?P<forth>>)?\s*",
        rf"\s*(?P<back><)?-\s*\[\s*(?P<edge>\w+)?\s*{_HOPS}\s*\]\s*-(?P<forth>>)?\s*",
        r"\s*(?P<back><)?-{1,2}\s*:?(?P<edge>\w+)\s*-{1,2}(?P<forth>>)?\s*",
        r"\s*(?P<forth>->)\s*(?P<edge>\w+)\s*(?:->)?\s*",
        r"\s+(?P<edge>[A-Za-z_]\w*)\s*(?P<forth>->)\s*",
        r"\s*\.\s*(?P<edge>\w+)\s*(?P<forth>->|=)?\s*",
        r"\s*\[\s*:?\s*(?P<edge>\w+)\s*\](?P<forth>)\s*",
        r"\s*:\s*(?P<edge>[a-z]\w*)(?P<forth>)\s+",
        r"\s*(?P<back><)?-{1,2}(?P<forth>>)?\s*",
    )
)


def propose_arrows(program: RefusedProgram, span: Span) -> Iterator[Proposal]:
    """The longest chain over the span, and the same from a later start."""
    line = program.text.rfind("\n", 0, span.start) + 1
    for start in re.compile(r"\(|\$").finditer(program.masked, max(line, program.start), span.end):
        chain = _Chain(program)
        end = chain.read(start.start())
        if end is not None and end >= span.start and (clauses := chain.clauses()) is not None:
            yield (TextEdit(start.start(), end, "  ".join(clauses)),)


class _Chain:
    """Nodes with something between them, from left to right."""

    def __init__(self, program: RefusedProgram) -> None:
        self._program = program
        self._nodes: list[re.Match[str]] = []
        self._between: list[re.Match[str]] = []
        self._given: set[str] = set()

    def read(self, at: int) -> int | None:
        """The end of the chain that begins here; None if there is none."""
        node = _NODE.match(self._program.masked, at)
        while node is not None:
            self._nodes.append(node)
            step = self._step(node.end())
            if step is None:
                break
            between, node = step
            self._between.append(between)
        is_ours = not self._between and (not self._nodes or self._nodes[0]["bare"] is not None)
        return None if is_ours else self._nodes[-1].end()

    def _step(self, at: int) -> tuple[re.Match[str], re.Match[str]] | None:
        for pattern in _BETWEEN:
            between = pattern.match(self._program.masked, at)
            if between is not None and between.end() > at:
                node = _NODE.match(self._program.masked, between.end())
                if node is not None:
                    return between, node
        return None

    def clauses(self) -> list[str] | None:
        """The chain as it is written here; None if an edge is not known."""
        found: list[str] = []
        names: list[str] = []
        types: list[str | None] = []
        for at, node in enumerate(self._nodes):
            name, type_name = self._name(node, at), self._type(node)
            names.append(f"${name}")
            types.append(type_name)
            if node["type"] is not None:
                matches = "" if node["matches"] is None else f" {self._text(node, 'matches')}"
                written = " | ".join(
                    self._type_named(each) or each for each in _words(node["type"])
                )
                found.append(f"${name}: {written}{matches}")
            elif node["matches"] is not None:
                return None
        for at, between in enumerate(self._between):
            edges = self._edges(between, types[at], types[at + 1])
            if not edges:
                return None
            found.extend(self._walk(between, edges, names[at], names[at + 1]))
        return found

    def _walk(
        self, between: re.Match[str], edges: list[EdgeType], left: str, right: str
    ) -> Iterator[str]:
        groups = between.groupdict()
        word = "|".join(spell_edge(each) for each in dict.fromkeys(each.family for each in edges))
        is_arrow = "-" in between[0]
        is_within = all(each.source == each.target for each in edges)
        if groups.get("back"):
            left, right = right, left
        elif is_arrow and not groups.get("forth") and is_within:
            word = f"<{word}>"
        if groups.get("hops"):
            low = groups["low"]
            high = groups["high"] if groups["dots"] else low
            word += f"{{{low or '1'},{high or ''}}}"
        bound = groups.get("bound")
        matches = (
            [] if groups.get("matches") is None else split(self._text(between, "matches")[1:-1])
        )
        if matches and bound is None:
            bound = self._fresh("e")
        yield f"{left} {'' if bound is None else f'${bound}:'}{word} {right}"
        for each in matches:
            name, _, value = each.partition(":")
            yield f"${bound}.{name.strip()} = {value.strip()}"

    def _edges(self, between: re.Match[str], left: str | None, right: str | None) -> list[EdgeType]:
        """The edges between two nodes; none if one of them is not known."""
        name = between.groupdict().get("edge")
        program = self._program
        words = [program.edge_word(each) for each in _words(name or "")]
        found = [program.catalog.edges_named(each) for each in words if each is not None]
        if any(found):
            is_whole = all(found) and len(found) == len(words)
            return [edge for each in found for edge in each] if is_whole else []
        joining = program.edges_between(left, right)
        return [joining[0]] if len(joining) == 1 and left is not None else []

    def _name(self, node: re.Match[str], at: int) -> str:
        name = node["bare"] or node["name"]
        if name is None:
            return "_" if node["type"] is None else self._fresh(f"n{at + 1}")
        return f"{name[0].lower()}{name[1:]}"

    def _fresh(self, name: str) -> str:
        found = fresh_name(self._program, name, self._given)
        self._given.add(found)
        return found

    def _type(self, node: re.Match[str]) -> str | None:
        """The one type of a node, if it is known."""
        if node["type"] is not None:
            words = _words(node["type"])
            return self._type_named(words[0]) if len(words) == 1 else None
        known = self._program.types.get(node["bare"] or node["name"] or "")
        return None if known is None else known.name

    def _type_named(self, word: str) -> str | None:
        catalog = self._program.catalog
        known = [each.name for each in catalog.nodes]
        return find_name(word, known + [each.name for each in catalog.interfaces])

    def _text(self, node: re.Match[str], group: str) -> str:
        return self._program.group(node, group)


def _words(text: str) -> list[str]:
    """What a text such as `KNOWS|:FOLLOWS` lists."""
    return re.findall(r"\w+", text)
