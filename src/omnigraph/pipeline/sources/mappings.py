"""Which column of a table supplies which property of a row, decided before any row is read.

A property takes its values from the column that the mapping names, else from the column of the
same name. Edges also take `from` and `to`, which may be called `src` and `dst`; rows that bring
their own ids take `id`, or `@id` where a property is called `id`. A column whose type can never fit
its property is a fault of the table as a whole, and so is a required property without a column.
Without a mapping, an unused column is a fault; a mapping states which columns are meant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow

from omnigraph.catalog.fitting import Misfit, fit_text
from omnigraph.catalog.model import Catalog, EdgeType, family_of
from omnigraph.catalog.types import FLOATS, INTEGERS, Scalar, ValueType
from omnigraph.compiler.ir import STRING
from omnigraph.compiler.spelling import suggest
from omnigraph.engine.load.bulk import COLUMN, Fault
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.coercion import coerce
from omnigraph.engine.write.violations import clip
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.pipeline.sources.lookups import Lookup, can_look_up
from omnigraph.pipeline.sources.moments import MomentPattern, PatternUnknown, check_pattern
from omnigraph.pipeline.sources.pair_columns import (
    ambiguous_ends,
    end_of,
    find_wrong_end,
    narrow,
    type_targets,
)
from omnigraph.pipeline.sources.texts import read_text

ENDS: Final = {"from": "src", "to": "dst"}
"""What edges are fed besides their properties, and what tables call it."""

_ALIASES: Final = {**ENDS, "from_type": "src_type", "to_type": "dst_type"}

_MOMENTS: Final = frozenset({Scalar.DATE, Scalar.DATETIME})


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """The rows of a table, as rows of one type."""

    type: Type
    columns: Mapping[str, str]
    """The column that feeds each property, the id, `from` or `to`."""
    are_texts: bool = False
    """Every column holds texts, which spell numbers and dates too."""
    constants: Mapping[str, str] = field(default_factory=dict)
    """What feeds a target in every row, spelled as a cell."""
    patterns: Mapping[str, MomentPattern] = field(default_factory=dict)
    """How the texts of a target spell a moment, if not as ISO 8601."""
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    """How the nodes of `from` and `to` are found, if not by their ids."""
    pairs: tuple[EdgeType, ...] = ()
    """Where columns say the types of the ends: the edge types that a row may be of."""

    def of_pair(self, pair: EdgeType) -> "ColumnMapping":
        """For the rows of one pair."""
        told = type_targets(pair)
        columns = {target: name for target, name in self.columns.items() if target not in told}
        return replace(self, type=pair, columns=columns, pairs=())

    @property
    def targets(self) -> list[str]:
        return [*self.columns, *self.constants]

    def wanted(self, target: str) -> ValueType:
        """The type that the values of a target are read as."""
        lookup = self.lookups.get(target)
        own = self.type.named(target) if lookup is None else lookup.property
        return STRING if own is None else own.type

    def is_identity(self, target: str) -> bool:
        """Is it an id, which may be spelled by an integer?"""
        return target in (self.type.id_name, *ENDS) and target not in self.lookups

    def read_text(self, target: str, text: str) -> object:
        """The JSON value of one cell."""
        pattern = self.patterns.get(target)
        value = read_text(text, self.wanted(target)) if pattern is None else pattern.read(text)
        return self.look_up(target, value)

    def look_up(self, target: str, value: object) -> object:
        """The id that a value stands for; the value itself where nothing is looked up."""
        lookup = self.lookups.get(target)
        return value if lookup is None or value is None else lookup.find_one(value)


@dataclass(slots=True)
class Fitting:
    """What became of the columns of one table."""

    mapping: ColumnMapping
    faults: list[Fault] = field(default_factory=list)
    unused: tuple[str, ...] = ()


def find_table_type(catalog: Catalog, source: Input) -> Type:
    """What the rows of a table are; of an edge over several ends the first of its pairs.

    Raises UsageError, TypeUnknown.
    """
    if source.type is not None and source.edge is not None:
        raise UsageError("a table feeds one type of nodes or one type of edges, not both")
    if source.type is not None:
        node = catalog.node(source.type)
        if node is None:
            raise TypeUnknown(source.type, hint=suggest(source.type, _names(catalog.nodes)))
        return node
    if source.edge is not None:
        edges = catalog.edges_named(source.edge)
        if not edges:
            raise TypeUnknown(source.edge, hint=suggest(source.edge, catalog.edge_names))
        return edges[0]
    raise UsageError(f"{source.data} is a table: say which type of nodes or edges it feeds")


def _names(types: Sequence[Type]) -> list[str]:
    return [each.name for each in types]


def fit_columns(
    catalog: Catalog, type_: Type, source: Input, schema: pa.Schema, *, shown: str, are_texts: bool
) -> Fitting:
    """Decide what feeds what; `shown` is the table's name in messages."""
    return _ColumnFitter(catalog, type_, source, schema, shown, are_texts=are_texts).run()


class _ColumnFitter:
    def __init__(
        self,
        catalog: Catalog,
        type_: Type,
        source: Input,
        schema: pa.Schema,
        shown: str,
        *,
        are_texts: bool,
    ) -> None:
        self.catalog = catalog
        self.type = type_
        self.source = source
        self.mapping = source.mapping
        self.schema = schema
        self.shown = shown
        self.are_texts = are_texts
        self.faults: list[Fault] = []
        self.targets = targets_of(type_)
        self.told = type_targets(type_)
        self.pairs: Sequence[EdgeType] = ()

    @property
    def name(self) -> str:
        """What messages call the type."""
        several = isinstance(self.type, EdgeType) and len(self.pairs) > 1
        return family_of(self.type.name) if several else self.type.name

    def run(self) -> Fitting:
        self._find_pairs()
        columns = self._mapped()
        constants = self._constants(columns)
        lookups = self._lookups()
        patterns = self._patterns(lookups)
        for target in self.targets:
            namesakes = (target, self._alias(target))
            if target not in columns and target not in constants:
                found = next((name for name in namesakes if name in self.schema.names), None)
                if found is not None and found not in self.mapping.values():
                    columns[target] = found
        unused = tuple(name for name in self.schema.names if name not in columns.values())
        self._check_unused(unused)
        mapping = ColumnMapping(self.type, columns, self.are_texts, constants, patterns, lookups)
        if any(target in columns for target in self.told):
            mapping = replace(mapping, pairs=tuple(self.pairs))
        for target, column in columns.items():
            self._check_column(mapping, target, column)
        for target, text in constants.items():
            self._check_constant(mapping, target, text)
        for target, wanted in self.targets.items():
            is_named = any(
                self._target(given) == target for given in (*self.mapping, *self.source.constants)
            )
            if target not in columns and not wanted.nullable and not is_named:
                self._report(target, f"no column feeds '{target}' of {self.name}")
        for target, reason in ambiguous_ends(self.pairs, columns) if self.pairs else ():
            self._report(target, reason)
        return Fitting(mapping, self.faults, unused)

    def _find_pairs(self) -> None:
        """The pairs of ends that constants and lookups leave, of an edge that has several."""
        if not isinstance(self.type, EdgeType) or not self.type.is_pair:
            return
        pairs = self.catalog.edges_named(self.source.edge or self.type.name)
        fixed = {
            target: text
            for given, text in self.source.constants.items()
            if (target := self._target(given)) in self.told
        }
        for target, text in fixed.items():
            if (reason := find_wrong_end(pairs, target, text)) is not None:
                self._report(target, reason)
        for given, path in self.source.lookups.items():
            fixed.setdefault(self._target(given), path.partition(".")[0])
        self.pairs = narrow(pairs, fixed.items()) or pairs
        self.type = self.pairs[0]

    def _alias(self, target: str) -> str:
        is_free = target in ENDS or target in self.told
        return _ALIASES[target] if is_free and isinstance(self.type, EdgeType) else target

    def _target(self, given: str) -> str:
        if given in self.targets:
            return given
        return next((each for each in self.targets if self._alias(each) == given), given)

    def _mapped(self) -> dict[str, str]:
        columns: dict[str, str] = {}
        for given, column in self.mapping.items():
            target = self._target(given)
            if not self._is_target(given):
                continue
            if target in columns:
                self._report(target, f"two columns are to feed '{target}' of {self.name}")
            elif column not in self.schema.names:
                hint = suggest(column, self.schema.names)
                listed = hint or f"there are {', '.join(self.schema.names)}"
                self._report(target, f"there is no column {clip(column)}; {listed}")
            else:
                columns[target] = column
        return columns

    def _is_target(self, given: str) -> bool:
        if self._target(given) in self.targets:
            return True
        hint = suggest(given, self.targets)
        text = f"{self.name} has no property {clip(given)}"
        self._report(given, text if hint is None else f"{text}; {hint}")
        return False

    def _constants(self, columns: Mapping[str, str]) -> dict[str, str]:
        constants: dict[str, str] = {}
        for given, text in self.source.constants.items():
            target = self._target(given)
            if target in self.told or not self._is_target(given):
                continue
            if target in columns or target in constants:
                self._report(target, f"'{target}' of {self.name} is fed twice")
                continue
            constants[target] = text
        return constants

    def _patterns(self, lookups: Mapping[str, Lookup]) -> dict[str, MomentPattern]:
        patterns: dict[str, MomentPattern] = {}
        for given, text in self.source.patterns.items():
            target = self._target(given)
            if not self._is_target(given):
                continue
            wanted = lookups[target].property.type if target in lookups else self.targets[target]
            base = wanted.base
            if wanted.is_list or not isinstance(base, Scalar) or base not in _MOMENTS:
                name = f"{self.name}.{target}"
                self._report(target, f"a pattern is for Date and DateTime, and {name} is {wanted}")
                continue
            try:
                check_pattern(text)
            except PatternUnknown as error:
                self._report(target, f"the pattern {clip(text)} cannot be used: {error}")
                continue
            patterns[target] = MomentPattern(text, base)
        return patterns

    def _lookups(self) -> dict[str, Lookup]:
        lookups: dict[str, Lookup] = {}
        for given, path in self.source.lookups.items():
            target = self._target(given)
            if not isinstance(self.type, EdgeType) or target not in ENDS:
                self._report(given, f"only the ends of edges are looked up, not {clip(given)}")
                continue
            end = end_of(self.type, target)
            type_name, _, name = path.partition(".")
            node = self.catalog.node(end)
            assert node is not None, "the ends of edges are node types"
            found = node.named(name)
            if type_name != end:
                text = f"'{target}' of {self.name} is a node of type {end}, not {clip(type_name)}"
                self._report(target, text)
            elif found is None:
                hint = suggest(name, [each.spelling for each in node.properties])
                text = f"{end} has no property {clip(name)}"
                self._report(target, text if hint is None else f"{text}; {hint}")
            elif not can_look_up(found.type):
                self._report(target, f"nodes are not found by {path}, which is {found.type}")
            else:
                lookups[target] = Lookup(node, found)
        return lookups

    def _check_constant(self, mapping: ColumnMapping, target: str, text: str) -> None:
        if target in mapping.lookups:
            return  # it is found, or not, when the nodes are known
        value = mapping.read_text(target, text)
        own = self.type.named(target)
        try:
            fit_text(value) if own is None else coerce(value, own)
        except Misfit as misfit:
            self._report(target, f"the constant of {self.name}.{target}: {misfit}")

    def _check_unused(self, unused: Sequence[str]) -> None:
        if self.mapping:
            return
        for name in unused:
            hint = suggest(name, self.targets) or "give a mapping to leave it out"
            text = f"the column {clip(name)} feeds nothing of {self.name}; {hint}"
            self._report(name, text)

    def _check_column(self, mapping: ColumnMapping, target: str, column: str) -> None:
        if self.schema.names.count(column) > 1:
            self._report(target, f"several columns are called {clip(column)}")
            return
        wanted = mapping.wanted(target)
        given = self.schema.field(column).type
        if self.are_texts and arrow.is_string(given):
            return
        if target in mapping.patterns and not is_text(given):
            text = f"a pattern is for texts, and the column {clip(column)} is {given}"
            self._report(target, text)
        elif not can_hold(given, wanted, is_identity=mapping.is_identity(target)):
            text = f"the column {clip(column)} is {given}, and {self.name}.{target} is {wanted}"
            self._report(target, text)

    def _report(self, name: str, message: str) -> None:
        self.faults.append(
            Fault(COLUMN, message, self.shown, type_name=self.name, property_name=name)
        )


def targets_of(type_: Type) -> dict[str, ValueType]:
    """Everything that may be fed, with what it needs."""
    ends = dict.fromkeys(ENDS, STRING) if isinstance(type_, EdgeType) else {}
    told = dict.fromkeys(type_targets(type_), STRING.optional())
    own = {each.spelling: each.type for each in type_.properties}
    return {type_.id_name: STRING.optional(), **ends, **told, **own}


# ── types ────────────────────────────────────────────────────────────────────────────────────────


def can_hold(given: pa.DataType, wanted: ValueType, *, is_identity: bool = False) -> bool:
    """May a column of this type hold such values? Which ones it does hold is seen row by row."""
    if isinstance(given, pa.DictionaryType):
        given = given.value_type
    if arrow.is_null(given):
        return True
    if wanted.is_list or wanted.is_vector:
        item = ValueType(Scalar.F64) if wanted.is_vector else ValueType(wanted.base)
        is_list = arrow.is_list(given) or arrow.is_large_list(given) or arrow.is_list_view(given)
        if not is_list and not arrow.is_fixed_size_list(given):
            return False
        assert isinstance(given, pa.ListType | pa.LargeListType | pa.FixedSizeListType)
        return can_hold(given.value_type, item)
    assert isinstance(wanted.base, Scalar)
    return _can_hold_scalar(given, wanted.base) or (is_identity and arrow.is_integer(given))


def _can_hold_scalar(given: pa.DataType, base: Scalar) -> bool:
    match base:
        case Scalar.STRING:
            return is_text(given)
        case Scalar.BOOL:
            return arrow.is_boolean(given)
        case Scalar.DATE:
            return arrow.is_date32(given) or is_text(given) or arrow.is_integer(given)
        case Scalar.DATETIME:
            is_moment = arrow.is_timestamp(given) or arrow.is_date32(given)
            return is_moment or is_text(given) or arrow.is_integer(given)
        case Scalar.BLOB:
            is_bytes = arrow.is_binary(given) or arrow.is_large_binary(given)
            return is_bytes or arrow.is_fixed_size_binary(given) or is_text(given)
        case _ if base in INTEGERS:
            return arrow.is_integer(given) or is_whole_decimal(given)
        case _:
            assert base in FLOATS
            return arrow.is_integer(given) or arrow.is_floating(given) or arrow.is_decimal(given)


def is_text(given: pa.DataType) -> bool:
    return arrow.is_string(given) or arrow.is_large_string(given) or arrow.is_string_view(given)


def is_whole_decimal(given: pa.DataType) -> bool:
    """How Spark holds integers beyond 64 bits with a sign."""
    return isinstance(given, pa.Decimal128Type | pa.Decimal256Type) and given.scale == 0
