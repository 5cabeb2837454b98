"""The keys of a load as texts in buckets: of its input, and of the committed tables.

The prefilter reads them. A committed table that is much larger than the input is not read: the
prefilter looks the keys of the input up in its indexes (`CommittedLookup`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap

from omnigraph.catalog.model import Catalog, EdgeType
from omnigraph.commit.manifest.model import Pin
from omnigraph.engine.load.bulk import LoadMode, RecordPlace, Rejects
from omnigraph.engine.load.incoming import load_rules
from omnigraph.engine.write.base_rows import Type, uniques_of
from omnigraph.engine.write.row_rules import KeyRule, is_keyed, tables_read
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.committed_keys import CommittedKeys
from omnigraph.pipeline.checks.prefilter import CommittedLookup
from omnigraph.pipeline.stage.buckets import BucketColumn, BucketPairs, BucketTexts
from omnigraph.pipeline.stage.keys import KeyFiles, bucket_columns, unique_name


@dataclass(frozen=True, slots=True)
class LoadKeys:
    """The keys and the counts of a load whose rows are in files."""

    catalog: Catalog
    mode: LoadMode
    key_files: Mapping[TableKey, KeyFiles]
    """The keys of the input, for each table that has rows in it."""
    bucket_count: int
    lookup_ratio: float
    """A committed table with so many times the rows of the input is looked up, not read."""
    counts: Mapping[TableKey, int]
    given_ids: Mapping[TableKey, int]
    errors_max: int
    rejects: Rejects | None
    place_of: Callable[[int], RecordPlace]

    @property
    def rules(self) -> tuple[KeyRule, ...]:
        return load_rules(self.catalog, self.mode, self.counts, self.given_ids)

    def read_by(self, rule: KeyRule) -> frozenset[TableKey]:
        """The committed tables that the result of a rule depends on."""
        replaced = self.counts.keys() if self.mode is LoadMode.OVERWRITE else ()
        return tables_read(rule, replaced)

    @property
    def tables_read(self) -> frozenset[TableKey]:
        """The committed tables that decide whether the load obeys its rules."""
        return frozenset(key for each in self.rules for key in self.read_by(each))


@dataclass(frozen=True, slots=True)
class KeyTexts:
    load: LoadKeys
    source: CommittedKeys
    pins: Mapping[TableKey, Pin]
    """The committed tables that rules read."""

    def is_replaced(self, type_: Type) -> bool:
        is_touched = type_.table_key in self.load.key_files
        return is_touched and self.load.mode is LoadMode.OVERWRITE

    def is_last_wins(self, type_: Type) -> bool:
        return self.load.mode is LoadMode.MERGE and not is_keyed(type_)

    def has_given_ids(self, type_: Type) -> bool:
        """Does a record state its id or key? Generated ids are new and never repeat."""
        return bool(self.load.given_ids.get(type_.table_key))

    def count_committed(self, type_: Type) -> int:
        pin = self.pins.get(type_.table_key)
        return 0 if pin is None or self.is_replaced(type_) else pin.row_count

    def incoming_texts(self, type_: Type, name: str) -> tuple[BucketTexts, ...]:
        return self._incoming_column(type_, BucketColumn(name, name))

    def _incoming_column(self, type_: Type, column: BucketColumn) -> tuple[BucketTexts, ...]:
        key = type_.table_key
        files = self.load.key_files.get(key, KeyFiles()).buckets
        return self._as_texts(files, type_, column, self.load.counts.get(key, 0))

    def committed_texts(self, type_: Type, name: str) -> tuple[BucketTexts, ...]:
        """The column of all committed rows; none of a table that the load overwrites."""
        return self._committed_column(type_, BucketColumn(name, name))

    def _committed_column(self, type_: Type, column: BucketColumn) -> tuple[BucketTexts, ...]:
        count = self.count_committed(type_)
        if not count:
            return ()
        pin = self.pins[type_.table_key]
        return self._as_texts(self.source.find_buckets([pin])[pin.key], type_, column, count)

    def _as_texts(
        self, files: tuple[str, ...], type_: Type, column: BucketColumn, row_count: int
    ) -> tuple[BucketTexts, ...]:
        if not files:
            return ()
        is_merge = self.load.mode is LoadMode.MERGE
        columns = bucket_columns(type_, with_partners=is_merge)
        return (BucketTexts(files, columns, column, row_count),)

    def texts_or_lookup(
        self, type_: Type, name: str
    ) -> tuple[tuple[BucketTexts, ...], tuple[CommittedLookup, ...]]:
        """The texts of a committed column, or a lookup in a table that is too large to read."""
        if not self.uses_lookup(type_):
            return self.committed_texts(type_, name), ()
        return (), (self._stored(type_, name, "id"),)

    def incoming_pairs(self, type_: Type, name: str, partner: str) -> tuple[BucketPairs, ...]:
        texts = self.incoming_texts(type_, name)
        partners = self._incoming_column(type_, BucketColumn(partner, name))
        return tuple(starmap(BucketPairs, zip(texts, partners, strict=True)))

    def pairs_or_lookup(
        self, type_: Type, name: str, partner: str
    ) -> tuple[tuple[BucketPairs, ...], tuple[CommittedLookup, ...]]:
        """Committed texts, each with its partner; or a lookup."""
        if self.uses_lookup(type_):
            return (), (self._stored(type_, name, partner),)
        texts = self.committed_texts(type_, name)
        partners = self._committed_column(type_, BucketColumn(partner, name))
        return tuple(starmap(BucketPairs, zip(texts, partners, strict=True))), ()

    def _stored(self, type_: Type, name: str, partner: str) -> CommittedLookup:
        pin = self.pins[type_.table_key]
        groups = {unique_name(number): group for number, group in enumerate(uniques_of(type_))}
        if name not in groups:
            return self.source.stored(pin, name, is_unique=False, partner=partner)
        (column,) = groups[name]
        return self.source.stored(pin, column, is_unique=True, partner=partner)

    def uses_lookup(self, type_: Type) -> bool:
        """Is it cheaper to look the incoming keys up than to read the committed ones?"""
        count = self.count_committed(type_)
        incoming = sum(self.load.counts.values())
        if not count or count < self.load.lookup_ratio * incoming:
            return False
        columns = {"id", "src"} if isinstance(type_, EdgeType) else {"id"}
        if type_.table_key in self.load.key_files:
            groups = uniques_of(type_)
            if any(len(group) > 1 for group in groups):
                # One of the columns may hold one value in every row; its index does not help.
                return False
            columns |= {name for group in groups for name in group}
        return self.source.is_indexed(self.pins[type_.table_key], columns)

    def has_committed(self, type_: Type) -> bool:
        return bool(self.count_committed(type_))
