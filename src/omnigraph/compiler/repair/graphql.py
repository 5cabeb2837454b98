"""Whole queries in GraphQL: a field of the root is a type, a field with braces is a traversal.

`{ person(email: "a") { name  knows { name } } }` binds a person and, where there are any, the
persons it knows: GraphQL shows a person without friends too, so the traversal is `optional`.
"""

import re
from collections.abc import Iterator
from typing import Final

from omnigraph.catalog.model import NodeType
from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.foreign import hide, split
from omnigraph.compiler.repair.program import RefusedProgram, find_name
from omnigraph.compiler.spelling import spell_edge

_HEAD: Final = re.compile(
    r"\s*(?:query\s*(?P<name>\w+)?\s*(?:\((?P<given>[^()]*)\))?\s*)?\{(?P<body>.*)\}\s*\Z",
    re.DOTALL,
)
_FIELD: Final = re.compile(r"\s*(?:(\w+)\s*:\s*)?(\w+)\s*(?:\(([^()]*)\))?\s*(\{)?,?")
_COMPARATORS: Final = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def propose_graphql(program: RefusedProgram) -> Iterator[Proposal]:
    found = _HEAD.match(program.text)
    if found is None or re.search(r"\b(?:match|return|insert|update|delete)\b", program.masked):
        return
    selections = _Selections(program)
    if selections.read_root(found["body"]):
        given = (found["given"] or "").replace("!", "")
        name = found["name"] or "q"
        text = f"query {name[0].lower()}{name[1:]}({given}) {{ {selections.spell()} }}"
        yield (TextEdit(0, len(program.text), text),)


class _Selections:
    def __init__(self, program: RefusedProgram) -> None:
        self._program = program
        self._clauses: list[str] = []
        self._columns: list[str] = []
        self._sections: dict[str, str] = {}

    def spell(self) -> str:
        parts = [
            f"match {{ {' '.join(self._clauses)} }}",
            f"return {{ {', '.join(self._columns)} }}",
        ]
        parts.extend(
            f"{word} {self._sections[word]}"
            for word in ("limit", "offset")
            if word in self._sections
        )
        return " ".join(parts)

    def read_root(self, body: str) -> bool:
        fields = list(_fields(body))
        if len(fields) != 1 or fields[0][2] is None:
            return False
        name, arguments, inner, _ = fields[0]
        node = self._type(name)
        if node is None or inner is None:
            return False
        variable = f"{node.name[0].lower()}"
        self._clauses.append(f"${variable}: {node.name}")
        return self._filter(variable, arguments, is_root=True) and self._select(
            variable, node, inner
        )

    def _select(self, variable: str, node: NodeType, body: str) -> bool:
        nested = 0
        for name, arguments, inner, alias in _fields(body):
            if inner is None:
                column = {"__typename": "@type", "id": "id" if node.named("id") else "@id"}.get(
                    name, name
                )
                named = "" if alias is None else f" as {alias}"
                self._columns.append(f"${variable}.{column}{named}")
                continue
            nested += 1
            if nested > 1 or not self._walk(variable, node, name, arguments, inner):
                return False
        return True

    def _walk(self, variable: str, node: NodeType, name: str, arguments: str, inner: str) -> bool:
        """A field with braces: an edge by its name, or the only one to the type that it names."""
        word = self._program.edge_word(name)
        edges = self._program.catalog.edges_named(word) if word is not None else ()
        if not edges and (named := self._type(name)) is not None:
            edges = tuple(self._program.edges_between(node.name, named.name))
        if len(edges) != 1:
            return False
        edge = edges[0]
        other = self._program.catalog.node(edge.target if edge.source == node.name else edge.source)
        if other is None:
            return False
        outer, self._clauses = self._clauses, []
        target = f"{variable}{len(self._columns)}"
        self._clauses.append(f"${variable} {spell_edge(edge.family)} ${target}")
        is_known = self._filter(target, arguments, is_root=False) and self._select(
            target, other, inner
        )
        self._clauses = [*outer, f"optional {{ {' '.join(self._clauses)} }}"]
        return is_known

    def _filter(self, variable: str, arguments: str, *, is_root: bool) -> bool:
        for each in split(arguments):
            name, _, value = (part.strip() for part in each.partition(":"))
            limit = {"first": "limit", "limit": "limit", "offset": "offset", "skip": "offset"}.get(
                name
            )
            if limit is not None:
                self._sections[limit] = value
                if not is_root:
                    return False
            elif name in ("where", "filter"):
                if not self._filter(variable, value.strip().strip("{}"), is_root=is_root):
                    return False
            elif value.startswith("{"):
                for test in split(value.strip("{} ")):
                    word, _, wanted = (part.strip() for part in test.partition(":"))
                    comparator = _COMPARATORS.get(word.strip("_"))
                    if comparator is None:
                        return False
                    self._clauses.append(f"${variable}.{name} {comparator} {wanted}")
            elif name:
                self._clauses.append(f"${variable}.{name} = {value}")
        return True

    def _type(self, name: str) -> NodeType | None:
        meant = find_name(name, [each.name for each in self._program.catalog.nodes])
        return None if meant is None else self._program.catalog.node(meant)


def _fields(body: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    """The name, the arguments, the selection and the alias of each field."""
    at = 0
    while (found := _FIELD.match(body, at)) is not None:
        at, inner = found.end(), None
        if found[4]:
            closing = hide(body[at - 1 :]).find("}")
            if closing < 0:
                return
            end = at - 1 + closing
            inner, at = body[at:end], end + 1
        yield found[2], found[3] or "", inner, found[1]
