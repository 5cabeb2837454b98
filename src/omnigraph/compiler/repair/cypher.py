"""Whole programs in Cypher, clause by clause.

A clause becomes the section that means the same; patterns, variables and strings stay as they are,
for `arrows` and `habits` know them. `MATCH … WITH … WHERE … RETURN … ORDER BY …` is a read of two
stages. A write names its nodes by their keys: `MATCH (p:Person {email: "a"}) SET p.age = 3` is
`update Person set { age: 3 } where email = "a"`. What has no equal here, as UNWIND, is no proposal.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from omnigraph.catalog.model import NodeType
from omnigraph.catalog.names import column_of
from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.foreign import cut, split
from omnigraph.compiler.repair.program import RefusedProgram, find_name
from omnigraph.compiler.repair.statements import spell_update

_CLAUSE: Final = (
    r"(?<![.:$\w])(?:optional\s+match|match|where|(?<!starts )(?<!ends )with(?:\s+distinct)?"
    r"|return(?:\s+distinct)?|order\s+by|skip|offset|limit|union(?:\s+all)?|create|merge|set"
    r"|detach\s+delete|delete|unwind|remove|call|foreach|on\s+(?:create|match))\b(?!\s*:)"
)
_START: Final = re.compile(
    r"\s*(?:(?:optional\s+)?match|create|merge)\b(?!\s*[{\"$])", re.IGNORECASE
)
_BODY: Final = re.compile(r"\bquery\s+\w+\s*(?:\([^{}]*\))?\s*\{")
_SHORTEST: Final = re.compile(
    r"(?:\$?(\w+)\s*=\s*)?(all)?shortestpaths?\s*\((.*)\)\s*\Z", re.IGNORECASE | re.DOTALL
)
_PATTERN: Final = re.compile(r"\)\s*<?-|>\s*\(|-\s*\(")
_MEASURED: Final = re.compile(
    r"(exists|count|size)\s*([({])(.*)[)}]([^(){}]*)\Z", re.IGNORECASE | re.DOTALL
)
_ASSIGNED: Final = re.compile(r"(\w+)\.(\w+)\s*=\s*(.*)", re.DOTALL)
_COUNTS: Final = re.compile(
    r"\b(?:count|sum|avg|min|max|collect|stdev|percentile\w*)\s*\(", re.IGNORECASE
)
_NODE: Final = re.compile(r"\(\s*(\w+)?\s*(?::\s*(\w+))?\s*(?:\{([^{}]*)\})?\s*\)")
_STEP: Final = re.compile(r"\s*(<?)-\s*\[\s*(\w+)?\s*:\s*(\w+)\s*(?:\{([^{}]*)\})?\s*\]\s*-(>?)\s*")


def propose_cypher(program: RefusedProgram) -> Iterator[Proposal]:
    start, end = program.start, len(program.text[: program.end].rstrip().rstrip(";"))
    body = _BODY.search(program.masked, start, end)
    if body is not None:
        start, end = body.end(), program.masked.rfind("}", start, end)
    text = program.text[start:end].rstrip().rstrip(";")
    if end < start or _START.match(text) is None:
        return
    clauses = cut(text, _CLAUSE)
    is_write = any(word.split()[-1] in ("create", "merge", "set", "delete") for word, _ in clauses)
    translated = _Writes(program).translate(clauses) if is_write else _translate_read(clauses)
    if translated is not None:
        inside = f" {translated} "
        yield (TextEdit(start, end, inside if body is not None else f"query q() {{{inside}}}"),)


# ── reads ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Stage:
    """A `match`, and the `with` or `return` that ends it."""

    blocks: list[tuple[str, str]] = field(default_factory=list)
    """Clauses, behind the word of their block if they stand in one."""
    head: str = ""
    items: list[str] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)

    @property
    def is_grouped(self) -> bool:
        return any(_COUNTS.search(each) for each in self.items)

    def spell(self) -> str:
        parts = []
        if self.blocks:
            clauses = [_braced(word, [each]) if word else each for word, each in self.blocks]
            parts.append(_braced("match", clauses))
        if self.head:
            parts.append(f"{self.head} {{ {', '.join(self.items)} }}")
        for word in ("having", "order", "limit", "offset"):
            if word in self.sections:
                inside = self.sections[word]
                parts.append(
                    f"{word} {inside if word in ('limit', 'offset') else f'{{ {inside} }}'}"
                )
        return " ".join(parts)


def _translate_read(clauses: list[tuple[str, str]]) -> str | None:
    stages = [_Stage()]
    written: list[str] = []
    for word, body in clauses:
        stage = stages[-1]
        if word in ("match", "optional match"):
            if stage.head:
                stages.append(stage := _Stage())
            stage.blocks.append(("optional" if word != "match" else "", "  ".join(_patterns(body))))
        elif word == "where":
            _add_conditions(stages, body)
        elif word in ("with", "return", "return distinct"):
            if stage.head:
                stages.append(stage := _Stage())
            stage.head, stage.items = word.split()[0], split(body)
            if word == "return distinct" and not stage.is_grouped:
                stage.items.append("count(*) as rows")
        elif word in _SECTION_OF:
            stage.sections[_SECTION_OF[word]] = body
        elif word in ("union", "union all"):
            written.extend((*(each.spell() for each in stages), word))
            stages = [_Stage()]
        else:
            return None
    return " ".join((*written, *(each.spell() for each in stages)))


_SECTION_OF: Final = {"order by": "order", "limit": "limit", "skip": "offset", "offset": "offset"}


def _add_conditions(stages: list[_Stage], body: str) -> None:
    """Of the block before them; of groups they are `having`, of rows that were cut a new stage."""
    stage = stages[-1]
    if not stage.head and stage.blocks:
        word, clauses = stage.blocks[-1]
        stage.blocks[-1] = word, "  ".join((clauses, *_conditions(body)))
    elif stage.is_grouped and not stage.sections:
        stage.sections["having"] = body
    else:
        stages.append(_Stage(blocks=[("", "  ".join(_conditions(body)))]))


def _patterns(body: str) -> list[str]:
    found: list[str] = []
    for pattern in split(body):
        shortest = _SHORTEST.match(pattern)
        if shortest is None:
            found.append(re.sub(r"\A\$?\w+\s*=\s*(?=\()", "", pattern))
            continue
        inner = shortest[3]
        for node in _NODE.finditer(inner):
            if node[1] is not None and node[2] is not None:
                found.append(node[0])
                inner = inner.replace(node[0], f"({node[1]})")
        word = "all shortest" if shortest[2] else "shortest"
        found.append(f"{word} {{ {inner} }} as ${shortest[1] or 'path'}")
    return found


def _conditions(body: str) -> list[str]:
    """Conditions as one clause, and each pattern among them as a block."""
    plain: list[str] = []
    blocks: list[str] = []
    if len(split(body, r"\bx?or\b")) > 1:
        return [body]
    for each in split(body, r"\band\b"):
        block = _block(each)
        (plain if block is None else blocks).append(each if block is None else block)
    return [*([" and ".join(plain)] if plain else []), *blocks]


def _block(condition: str) -> str | None:
    negated = re.match(r"not\b\s*", condition, re.IGNORECASE)
    rest = condition if negated is None else condition[negated.end() :]
    measured = _MEASURED.match(rest)
    if measured is None:
        is_pattern = rest.startswith("(") and _PATTERN.search(rest) is not None
        inner, word, after = (rest, "exists", "") if is_pattern else (None, "", "")
    else:
        is_pattern = _PATTERN.search(measured[3]) is not None
        inner, after = (measured[3] if is_pattern else None), measured[4]
        word = "exists" if measured[1].lower() == "exists" else "count"
    if inner is None:
        return None
    parts = cut(inner, _CLAUSE) if re.match(r"\s*match\b", inner, re.IGNORECASE) else None
    if parts is None:
        head, *rest_parts = split(inner, r"\bwhere\b")
        parts = [("match", head), *(("where", each) for each in rest_parts)]
    clauses = [line for name, body in parts for line in _INSIDE.get(name, _nothing)(body)]
    return f"{_braced('not' if negated and word == 'exists' else word, clauses)}{after}"


def _braced(word: str, clauses: Iterable[str]) -> str:
    inside = "  ".join(clauses)
    return f"{word} {{ {inside} }}"


def _nothing(_: str) -> list[str]:
    return []


_INSIDE: Final = {"match": _patterns, "where": _conditions}


# ── writes ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Known:
    """A node of a write, known by one of its properties."""

    type: NodeType
    name: str
    value: str

    @property
    def id(self) -> str | None:
        return self.value if self.type.key == (column_of(self.name),) else None


class _Writes:
    def __init__(self, program: RefusedProgram) -> None:
        self._catalog = program.catalog
        self._known: dict[str, _Known] = {}
        self._types: dict[str, NodeType] = {}
        self._walks: dict[str, tuple[str, str, str]] = {}
        """The edge type, the source and the target of the edges that are matched."""

    def translate(self, clauses: list[tuple[str, str]]) -> str | None:
        statements: list[str] = []
        for word, body in clauses:
            made = self._clause(word, body)
            if made is None:
                return None
            statements.extend(made)
        return "  ".join(statements)

    def _clause(self, word: str, body: str) -> list[str] | None:
        match word:
            case "match":
                return None if self._chains(body) is None else []
            case "where":
                return self._where(body)
            case "create":
                return self._chains(body, is_new=True)
            case "merge":
                return self._chains(body, is_new=True) if _STEP.search(body) else None
            case "set":
                return self._set(body)
            case "delete" | "detach delete":
                return self._delete(body)
            case _:
                return None

    def _chains(self, body: str, *, is_new: bool = False) -> list[str] | None:
        """What the patterns insert; nothing if they only say what there is."""
        statements: list[str] = []
        for chain in split(body):
            node = _NODE.match(chain)
            if node is None or not self._node(node, statements, is_new=is_new):
                return None
            while node.end() < len(chain.rstrip()):
                step = _STEP.match(chain, node.end())
                after = None if step is None else _NODE.match(chain, step.end())
                if step is None or after is None or bool(step[1]) == bool(step[5]):
                    return None
                if not self._node(after, statements, is_new=is_new):
                    return None
                source, target = (after, node) if step[1] else (node, after)
                if not self._step(step, source[1], target[1], statements, is_new=is_new):
                    return None
                node = after
        return statements

    def _node(self, node: re.Match[str], statements: list[str], *, is_new: bool) -> bool:
        name, type_name, values = node.groups()
        if type_name is None:
            return not is_new or name in self._known
        found = find_name(type_name, [each.name for each in self._catalog.nodes])
        of_type = None if found is None else self._catalog.node(found)
        if of_type is None:
            return False
        self._types[name or ""] = of_type
        given = [_pair(each) for each in split(values or "") if each]
        for prop, value in given:
            if len(given) == 1 or of_type.key == (column_of(prop),):
                self._known[name or ""] = _Known(of_type, prop, value)
        if is_new:
            statements.append(f"insert {of_type.name} {{ {values or ''} }}")
        return is_new or len(given) <= 1

    def _step(
        self,
        step: re.Match[str],
        source: str | None,
        target: str | None,
        statements: list[str],
        *,
        is_new: bool,
    ) -> bool:
        edge = find_name(step[3], self._catalog.edge_names)
        if edge is None:
            return False
        if not is_new:
            self._walks[step[2] or ""] = (edge, source or "", target or "")
            return True
        ends = [self._known.get(each or "") for each in (source, target)]
        ids = [None if each is None else each.id for each in ends]
        if None in ids or self._walks:
            return False
        values = f", {step[4]}" if step[4] else ""
        statements.append(f"insert {edge} {{ from: {ids[0]}, to: {ids[1]}{values} }}")
        return True

    def _where(self, body: str) -> list[str] | None:
        found = re.fullmatch(r"\s*(\w+)\.(\w+)\s*={1,2}\s*([^\s]+|'[^']*'|\"[^\"]*\")\s*", body)
        if found is None or found[1] not in self._types or found[1] in self._known:
            return None
        self._known[found[1]] = _Known(self._types[found[1]], found[2], found[3])
        return []

    def _set(self, body: str) -> list[str] | None:
        whole = re.fullmatch(r"\s*(\w+)\s*\+=\s*\{(.*)\}\s*", body, re.DOTALL)
        if whole is not None:
            names, values = {whole[1]}, whole[2].strip()
        else:
            parts = [_ASSIGNED.fullmatch(each) for each in split(body)]
            names = {"" if each is None else each[1] for each in parts}
            values = ", ".join(f"{each[2]}: {each[3]}" for each in parts if each is not None)
        known = self._known.get(names.pop()) if len(names) == 1 else None
        if known is None or self._walks:
            return None
        return [spell_update(known.type.name, values, f"{known.name} = {known.value}")]

    def _delete(self, body: str) -> list[str] | None:
        known = self._known.get(body)
        if known is not None and not self._walks:
            return [f"delete {known.type.name} where {known.name} = {known.value}"]
        if len(self._walks) != 1 or body not in self._walks:
            return None
        edge, source, target = self._walks[body]
        ends = {"from": self._known.get(source), "to": self._known.get(target)}
        given = {word: each.id for word, each in ends.items() if each is not None}
        if len(given) != 1 or None in given.values():
            return None
        ((word, value),) = given.items()
        return [f"delete {edge} where {word} = {value}"]


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip(), value.strip()
