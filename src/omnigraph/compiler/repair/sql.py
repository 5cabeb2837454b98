"""Whole queries in SQL: node tables become bindings, joins over edge tables become traversals.

`FROM Person p JOIN WorksAt w ON w.src = p.id JOIN Company c ON c.id = w.dst` is
`$p: Person  $c: Company  $p $w:worksAt $c`. A column such as `p.company_id`, joined with the id of
a company, is the one edge type between the two. Conditions and columns stay as they are.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.compiler.repair.edits import Proposal, TextEdit
from omnigraph.compiler.repair.foreign import cut, split
from omnigraph.compiler.repair.program import SOURCES, TARGETS, RefusedProgram, find_name
from omnigraph.compiler.spelling import spell_edge

_CLAUSE: Final = (
    r"\b(?:select(?:\s+distinct)?|from|where|group\s+by|having|order\s+by|limit|offset"
    r"|union(?:\s+all)?)\b"
)
_JOIN: Final = r"\b(?:(?:left|right|full)(?:\s+outer)?\s+|inner\s+|cross\s+)?join\b|,"
_TABLE: Final = re.compile(
    r"(\w+)(?:\s+(?:as\s+)?(?!on\b|using\b)(\w+))?(?:\s+on\s+(.*))?\Z", re.IGNORECASE | re.DOTALL
)
_EQUAL: Final = re.compile(r"\(?\s*(\w+)\.(\w+)\s*=\s*(\w+)\.(\w+)\s*\)?\Z")
_COUNTS: Final = re.compile(r"\b(?:count|sum|avg|min|max|stddev\w*)\s*\(", re.IGNORECASE)
_OUTER_MAX: Final = 2
"""Tables of one `optional` block: an edge table and the node behind it."""


@dataclass(frozen=True, slots=True)
class _Table:
    alias: str
    type: NodeType | EdgeType


def propose_sql(program: RefusedProgram) -> Iterator[Proposal]:
    text = program.text.rstrip().rstrip(";")
    if re.match(r"\s*select\b", text, re.IGNORECASE) is None:
        return
    parts: list[str] = []
    for part in re.split(r"(\bunion(?:\s+all)?\b)", text, flags=re.IGNORECASE):
        is_union = part.lower().startswith("union")
        translated = part.lower() if is_union else _translate(part, program)
        if translated is None:
            return
        parts.append(translated)
    yield (TextEdit(0, len(program.text), f"query q() {{ {' '.join(parts)} }}"),)


def _translate(text: str, program: RefusedProgram) -> str | None:
    clauses = dict(cut(text, _CLAUSE))
    read = _Read(program)
    if not read.join(clauses.get("from", ""), clauses.get("where")):
        return None
    is_distinct = "select distinct" in clauses
    columns = clauses.get("select distinct" if is_distinct else "select", "")
    top = re.match(r"top\s*\(?\s*(\d+)\s*\)?\s*", columns, re.IGNORECASE)
    items = read.columns(columns if top is None else columns[top.end() :])
    if is_distinct and not any(_COUNTS.search(each) for each in items):
        items.append("count(*) as rows")
    keys = [_bare(each) for each in split(clauses.get("group by", "")) if each]
    if any(each not in [_bare(item) for item in items] for each in keys):
        return None
    parts = [f"match {{ {' '.join(read.clauses)} }}", f"return {{ {', '.join(items)} }}"]
    if "having" in clauses:
        parts.append(f"having {{ {_by_alias(clauses['having'], items)} }}")
    if "order by" in clauses:
        parts.append(f"order {{ {_by_number(clauses['order by'], items)} }}")
    limit = clauses.get("limit") or (None if top is None else top[1])
    parts.extend([f"limit {limit}"] if limit else [])
    parts.extend([f"offset {clauses['offset']}"] if "offset" in clauses else [])
    return " ".join(parts)


def _bare(column: str) -> str:
    """A column without its alias and its table: a key of groups is named either way."""
    return re.sub(r"\s+as\s+\w+\Z", "", column, flags=re.IGNORECASE).split(".")[-1].strip()


def _by_alias(condition: str, items: list[str]) -> str:
    """`having count(*) > 2` asks about the column `count(*) as n` by its name."""
    for item in items:
        found = re.fullmatch(r"(.*\S)\s+as\s+(\w+)", item, re.IGNORECASE | re.DOTALL)
        if found is not None and _COUNTS.match(found[1]):
            condition = re.sub(re.escape(found[1]), found[2], condition, flags=re.IGNORECASE)
    return condition


def _by_number(order: str, items: list[str]) -> str:
    """`order by 2` is the second column."""
    keys = []
    for key in split(order):
        number = re.match(r"\d+\b", key)
        if number is not None and 1 <= int(number[0]) <= len(items):
            item = items[int(number[0]) - 1]
            alias = re.search(r"\s+as\s+(\w+)\Z", item, re.IGNORECASE)
            keys.append((item if alias is None else alias[1]) + key[number.end() :])
        else:
            keys.append(key)
    return ", ".join(keys)


class _Read:
    """The tables of a `from`, and the clauses of `match` that they become."""

    def __init__(self, program: RefusedProgram, outside: dict[str, _Table] | None = None) -> None:
        self._catalog = program.catalog
        self._program = program
        self._outside = frozenset(outside or ())
        self._tables = dict(outside or {})
        self._ends: dict[str, dict[str, str]] = {}
        self.clauses: list[str] = []

    def join(self, tables: str, where: str | None) -> bool:
        """Read the tables and their conditions; is all of it known here?"""
        inner, *outer = split(tables, r"\bleft(?:\s+outer)?\s+join\b")
        if re.search(r"\b(?:right|full)\b", tables, re.IGNORECASE) or len(outer) > _OUTER_MAX:
            return False
        is_or = len(split(where or "", r"\bor\b")) > 1
        conditions = [where] if where and not is_or else []
        if not self._add(split(inner, _JOIN), conditions):
            return False
        if outer:
            inside = _Read(self._program, self._tables)
            if not inside._add(outer, []):
                return False
            self._tables |= inside._tables
            self.clauses.append(f"optional {{ {' '.join(inside.clauses)} }}")
        self.clauses.extend([f"({where})"] if where and is_or else [])
        return True

    def _add(self, tables: list[str], conditions: list[str]) -> bool:
        """Tables that are joined, and what holds of them; is all of it known here?"""
        for part in tables:
            found = _TABLE.match(part)
            if found is None or not self._table(found[1], found[2]):
                return False
            conditions = [*([found[3]] if found[3] else []), *conditions]
        self.clauses = [
            f"${each.alias}: {each.type.name}"
            for key, each in self._tables.items()
            if isinstance(each.type, NodeType) and key not in self._outside
        ]
        rest = [
            each for on in conditions for each in split(on, r"\band\b") if not self._joins(each)
        ]
        blocks = [self._block(each) for each in rest]
        plain = [each for each, block in zip(rest, blocks, strict=True) if block is None]
        for alias, ends in self._ends.items():
            edge = self._tables[alias].type
            source, target = (f"${ends[word]}" if word in ends else "$_" for word in ("from", "to"))
            self.clauses.append(f"{source} ${alias}:{spell_edge(edge.name)} {target}")
        self.clauses.extend([self._with_ends(" and ".join(plain))] if plain else [])
        self.clauses.extend(each for each in blocks if each is not None)
        return True

    def _with_ends(self, condition: str) -> str:
        """`k.source = "a"` asks about the id of an end, `$k.@src`."""

        def spell(found: re.Match[str]) -> str:
            folded = found[2].lower().replace("_", "")
            end = "@src" if folded in SOURCES else "@dst" if folded in TARGETS else None
            return found[0] if end is None or found[1] not in self._ends else f"${found[1]}.{end}"

        return re.sub(r"\b(\w+)\.(\w+)", spell, condition)

    def _block(self, condition: str) -> str | None:
        """`not exists (select … from … where …)` is `not { … }`."""
        found = re.match(r"(not\s+)?exists\s*\((.*)\)\Z", condition, re.IGNORECASE | re.DOTALL)
        if found is None:
            return None
        clauses = dict(cut(found[2], _CLAUSE))
        inside = _Read(self._program, self._tables)
        where = clauses.get("where")
        if not inside._add(split(clauses.get("from", ""), _JOIN), [where] if where else []):
            return None
        return f"{'not' if found[1] else 'exists'} {{ {' '.join(inside.clauses)} }}"

    def _table(self, name: str, alias: str | None) -> bool:
        nodes = [each.name for each in self._catalog.nodes]
        meant = find_name(name, [*nodes, *(each.name for each in self._catalog.edges)])
        if meant is None:
            return False
        of_type = self._catalog.node(meant) or self._catalog.edge(meant)
        assert of_type is not None
        key = alias or name
        is_read = re.search(rf"\b{name}\s*\.", self._program.text) is not None
        spelled = key if alias or is_read or key[0].lower() in self._aliases() else key[0]
        spelled = f"{spelled[0].lower()}{spelled[1:]}"
        self._tables[key] = _Table(spelled, of_type)
        if isinstance(of_type, EdgeType):
            self._ends[key] = {}
        return True

    def _aliases(self) -> set[str]:
        return {each.alias for each in self._tables.values()}

    def _joins(self, condition: str) -> bool:
        """Is it the condition of a join? Then it is a traversal."""
        found = _EQUAL.match(condition)
        if found is None:
            return False
        one, other = self._tables.get(found[1]), self._tables.get(found[3])
        if one is None or other is None:
            return False
        for key, column, end in ((found[1], found[2], other), (found[3], found[4], one)):
            if key in self._ends and isinstance(end.type, NodeType):
                word = self._end(key, column, end.type)
                if word is not None:
                    self._ends[key][word] = end.alias
                return word is not None
        return self._refers(one, found[2], other) or self._refers(other, found[4], one)

    def _end(self, key: str, column: str, node: NodeType) -> str | None:
        """Which end of an edge table a column holds: by its own name, or by that of the type."""
        edge = self._tables[key].type
        folded = column.lower().replace("_", "")
        assert isinstance(edge, EdgeType)
        if folded in SOURCES | TARGETS:
            return "from" if folded in SOURCES else "to"
        if edge.source != edge.target and node.name in (edge.source, edge.target):
            return "from" if node.name == edge.source else "to"
        return None

    def _refers(self, one: _Table, column: str, other: _Table) -> bool:
        """`p.company_id = c.id`: the one edge type between the two."""
        between = self._program.edges_between(one.type.name, other.type.name)
        is_named = column.lower().startswith(other.type.name.lower())
        if not is_named or len(between) != 1:
            return False
        self.clauses.append(f"${one.alias} {spell_edge(between[0].family)} ${other.alias}")
        return True

    def columns(self, text: str) -> list[str]:
        """The columns, with whole rows as nodes."""
        items: list[str] = []
        nodes = [each.alias for each in self._tables.values() if isinstance(each.type, NodeType)]
        for each in split(text):
            table = re.fullmatch(r"(\w+)\.\*", each)
            if each == "*":
                items.extend(f"${alias}" for alias in nodes)
            else:
                items.append(each if table is None else f"${table[1]}")
        return items
