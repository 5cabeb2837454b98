"""Deciding conflict candidates: by the rules, by rulings, or by reporting a conflict."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from omnigraph.catalog.fitting import Misfit, fit_text
from omnigraph.catalog.model import EdgeType
from omnigraph.catalog.names import spelling_of
from omnigraph.commit.manifest.records import JsonValue
from omnigraph.engine.history.images import read_rows, spell_cell, spell_row
from omnigraph.engine.history.row_digest import digest_rows
from omnigraph.engine.merge.classify import ConflictKind, RowStep, Token
from omnigraph.engine.merge.conflicts import Conflict
from omnigraph.engine.merge.rulings import Choice, Detect, RowRuling, Rulings, Side, given_value
from omnigraph.engine.merge.table_plan import ConflictCandidates, Located, PlanDraft, Sides
from omnigraph.engine.tables.cells import Cell, Row
from omnigraph.engine.tables.columns import column_type
from omnigraph.engine.tables.row_refs import Type, fetch, portions
from omnigraph.engine.write.coercion import coerce, coerce_row
from omnigraph.engine.write.violations import clip
from omnigraph.errors import ResolutionsInvalid
from omnigraph.storage.tables import Tables

_NAMES: Final = {"src": "from", "dst": "to"}
"""Of the ends of an edge, as conflicts call them."""

_DIVERGENT: Final = frozenset({ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE})

_SAYS: Final = {
    ConflictKind.DIVERGENT_INSERT: "both branches made it, and not alike",
    ConflictKind.DIVERGENT_UPDATE: "both branches changed it, and not alike",
    ConflictKind.DELETE_VS_UPDATE: "one branch removed it, the other changed it",
    ConflictKind.AMBIGUOUS_BASE: "the branches last agreed in several states, which differ in it",
}


def resolve_conflicts(
    tables: Tables, sides: Sides, rulings: Rulings, candidates: ConflictCandidates, draft: PlanDraft
) -> None:
    """Decide every candidate, or report it as a conflict."""
    ruled = rulings.rows.get(sides.type.table_key, {})
    strategy = rulings.strategy_for(sides.type.name)
    taken, divergent, unresolved = [], [], {}
    for row_id in candidates.ids:
        ruling = ruled.get(row_id, RowRuling())
        if ruling.whole is not None:
            _obey(sides.type, row_id, ruling.whole, candidates, draft)
            continue
        match candidates.decide(row_id):
            case RowStep.KEEP:
                continue
            case RowStep():
                taken.append(row_id)
            case kind if kind in _DIVERGENT and rulings.detect is Detect.PROPERTY:
                divergent.append(row_id)
            case _ if strategy is Side.THEIRS:
                taken.append(row_id)
            case kind:
                if strategy is None:
                    unresolved[row_id] = kind
    draft.take(taken, candidates)
    _resolve_properties(_Rows(tables, sides.type, candidates), divergent, (ruled, strategy), draft)
    draft.conflicts += _report(_Rows(tables, sides.type, candidates), unresolved)


def _obey(
    type_: Type, row_id: str, choice: Choice, candidates: ConflictCandidates, draft: PlanDraft
) -> None:
    """Apply a ruling about a whole row."""
    if choice is Side.THEIRS:
        draft.take([row_id], candidates)
    elif not isinstance(choice, Side):
        value = given_value(choice)
        if value is None:
            draft.remove([row_id], candidates)
        else:
            draft.edit(row_id, candidates, _read_value(type_, row_id, value))


def _read_value(type_: Type, row_id: str, value: JsonValue) -> Row:
    if not isinstance(value, dict):
        raise ResolutionsInvalid(f"the value of {clip(row_id)} is not an object of properties")
    coerced = coerce_row(type_, {**value, type_.id_name: row_id}, lambda: row_id)
    if coerced.violations:
        raise ResolutionsInvalid(coerced.violations[0].message)
    return coerced.row


# ── reading candidates ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Rows:
    tables: Tables
    type: Type
    candidates: ConflictCandidates

    def read(self, located: Located, ids: Sequence[str]) -> dict[str, Row]:
        """The existing rows, by id."""
        return {
            str(row["id"]): row
            for part in self.parts(located, ids)
            for row in read_rows(self.type, part)
        }

    def parts(self, located: Located, ids: Sequence[str]) -> Iterable[pa.Table]:
        if located.handle is None:
            return
        refs = located.refs_of(ids)
        for start, stop in portions(self.tables, self.type, located.handle, refs.addresses):
            yield fetch(self.tables, self.type, located.handle, refs.addresses[start:stop])

    def cells(self, located: Located, ids: Sequence[str]) -> dict[str, Mapping[str, Token]]:
        """For every existing row, the token of each cell."""
        found: dict[str, Mapping[str, Token]] = {}
        for part in self.parts(located, ids):
            names = [name for name in part.column_names if name != "id"]
            columns = [digest_rows(part.select([name])) for name in names]
            for row_id, *tokens in zip(part["id"].to_pylist(), *columns, strict=True):
                found[str(row_id)] = dict(zip(names, tokens, strict=True))
        return found


# ── property by property ─────────────────────────────────────────────────────────────────────────


def _resolve_properties(
    rows: _Rows,
    ids: Sequence[str],
    decided: tuple[Mapping[str, RowRuling], Side | None],
    draft: PlanDraft,
) -> None:
    """Blend rows that both sides changed; report properties that both sides changed."""
    if not ids:
        return
    candidates, (ruled, strategy) = rows.candidates, decided
    bases = rows.cells(candidates.bases[0], ids)
    targets = rows.cells(candidates.target, ids)
    sources = rows.cells(candidates.source, ids)
    clashing: dict[str, list[str]] = {}
    blended = {}
    for row_id in ids:
        base, target, source = bases.get(row_id, {}), targets[row_id], sources[row_id]
        from_source, clashes = blend_cells(base, target, source)
        rulings = ruled.get(row_id, RowRuling()).properties
        values = {}
        for name in clashes:
            choice = rulings.get(_called(rows.type, name), strategy)
            if choice is None:
                clashing.setdefault(row_id, []).append(name)
            elif isinstance(choice, Side):
                from_source[name] = choice is Side.THEIRS
            else:
                values[name] = given_value(choice)
        if row_id in clashing:
            continue
        if values:
            draft.edit(row_id, candidates, _blend_row(rows, row_id, from_source, values))
        else:
            blended[row_id] = from_source
    draft.blend(blended, candidates)
    draft.conflicts += _report_properties(rows, clashing)


def blend_cells(
    base: Mapping[str, Token], target: Mapping[str, Token], source: Mapping[str, Token]
) -> tuple[dict[str, bool], list[str]]:
    """Which cells to take from the source, and which both sides changed differently."""
    from_source: dict[str, bool] = {}
    clashes = []
    for name, theirs in source.items():
        ours, before = target[name], base.get(name)
        is_changed = theirs not in (ours, before)
        from_source[name] = is_changed and ours == before
        if is_changed and ours != before:
            clashes.append(name)
    return from_source, clashes


def _blend_row(
    rows: _Rows, row_id: str, from_source: Mapping[str, bool], values: Mapping[str, JsonValue]
) -> Row:
    target = rows.read(rows.candidates.target, [row_id])[row_id]
    source = rows.read(rows.candidates.source, [row_id])[row_id]
    row: dict[str, Cell] = {
        name: source[name] if from_source.get(name) else cell for name, cell in target.items()
    }
    for name, value in values.items():
        row[name] = _read_cell(rows.type, name, value)
    return row


def _called(type_: Type, column: str) -> str:
    is_end = isinstance(type_, EdgeType) and column in _NAMES
    return _NAMES[column] if is_end else spelling_of(column)


def _read_cell(type_: Type, name: str, value: JsonValue) -> Cell:
    of = type_.find(name)
    try:
        if of is None:
            return fit_text(value)
        return None if value is None else coerce(value, of)
    except Misfit as misfit:
        raise ResolutionsInvalid(f"{type_.name}.{_called(type_, name)}: {misfit}") from misfit


# ── reporting ────────────────────────────────────────────────────────────────────────────────────


def _report(rows: _Rows, unresolved: Mapping[str, ConflictKind]) -> list[Conflict]:
    ids = list(unresolved)
    if not ids:
        return []
    shown = _spell_rows(rows, ids)
    reported = []
    for row_id, kind in unresolved.items():
        base, ours, theirs = shown[row_id]
        if kind is ConflictKind.AMBIGUOUS_BASE:
            base = None
        message = f"{rows.type.table_key} {clip(row_id)}: {_SAYS[kind]}"
        reported.append(
            Conflict(kind, rows.type.table_key, row_id, None, base, ours, theirs, message)
        )
    return reported


Shown = tuple[JsonValue, JsonValue, JsonValue]
"""A row, or a cell, in the base, in the target and in the source."""


def spell_sides(tables: Tables, type_: Type, candidates: ConflictCandidates) -> dict[str, Shown]:
    """Every candidate as each side has it; null where the row is missing."""
    return _spell_rows(_Rows(tables, type_, candidates), candidates.ids)


def _spell_rows(rows: _Rows, ids: Sequence[str]) -> dict[str, Shown]:
    candidates = rows.candidates
    base, ours, theirs = (
        rows.read(each, ids) for each in (candidates.bases[0], candidates.target, candidates.source)
    )
    return {
        each: (
            _spell(rows.type, base.get(each)),
            _spell(rows.type, ours.get(each)),
            _spell(rows.type, theirs.get(each)),
        )
        for each in ids
    }


def _spell(type_: Type, row: Row | None) -> JsonValue:
    return None if row is None else spell_row(type_, row)


def _report_properties(rows: _Rows, clashing: Mapping[str, Sequence[str]]) -> list[Conflict]:
    ids = list(clashing)
    if not ids:
        return []
    candidates = rows.candidates
    sides = [
        rows.read(each, ids) for each in (candidates.bases[0], candidates.target, candidates.source)
    ]
    reported = []
    for row_id, names in clashing.items():
        is_new = row_id not in candidates.bases[0].at
        kind = ConflictKind.DIVERGENT_INSERT if is_new else ConflictKind.DIVERGENT_UPDATE
        for name in names:
            of = column_type(rows.type, name)
            base, ours, theirs = (
                spell_cell(side[row_id][name], of) if row_id in side else None for side in sides
            )
            called = _called(rows.type, name)
            message = (
                f"{rows.type.table_key} {clip(row_id)}: both branches set '{called}', not alike"
            )
            key = rows.type.table_key
            reported.append(Conflict(kind, key, row_id, called, base, ours, theirs, message))
    return reported
