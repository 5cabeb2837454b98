"""The rules of a load as conditions on keys: if all conditions of a rule hold, nothing breaks it.

The prefilter proves conditions bucket by bucket, in a fraction of the time of a join. A rule with a
condition that is not proven may still hold; then joins, or the in-process evaluator, decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from omnigraph.catalog.model import EdgeType
from omnigraph.engine.load.bulk import LoadMode, type_of
from omnigraph.engine.write.base_rows import Type
from omnigraph.engine.write.row_rules import (
    EdgeCount,
    Endpoint,
    KeyRule,
    NewId,
    OrphanedEdge,
    RepeatedId,
    UniqueValue,
)
from omnigraph.ids import TableKey
from omnigraph.pipeline.checks.key_texts import KeyTexts
from omnigraph.pipeline.checks.prefilter import (
    Counted,
    CountedPairs,
    Disjoint,
    Distinct,
    KeyCondition,
    Paired,
    Subset,
    find_unproven,
)
from omnigraph.pipeline.stage.keys import unique_name
from omnigraph.pipeline.tasks import RunTasks

JOB = "checking the rows"


def find_doubtful(run: RunTasks, keys: KeyTexts, rules: Sequence[KeyRule]) -> list[KeyRule]:
    """The rules that the prefilter could not prove, in their order. Raises JobFailed."""
    load = keys.load
    read = {key for rule in rules for key in load.read_by(rule)}
    types = [type_of(load.catalog, key) for key in sorted(read)]
    # One job reads the keys of all committed tables that are not looked up.
    keys.source.find_buckets(
        [keys.pins[each.table_key] for each in types if not keys.uses_lookup(each)]
    )
    conditions = Conditions(keys).of_all(rules)
    every = [each for some in conditions for each in some]
    unproven = find_unproven(run, every, load.bucket_count, JOB)
    return [
        rule for rule, some in zip(rules, conditions, strict=True) if not unproven.isdisjoint(some)
    ]


@dataclass(frozen=True, slots=True)
class Conditions:
    keys: KeyTexts

    def of_all(self, rules: Sequence[KeyRule]) -> list[tuple[KeyCondition, ...]]:
        ends: dict[TableKey, list[Endpoint]] = {}
        for rule in rules:
            if isinstance(rule, Endpoint):
                ends.setdefault(rule.node_key, []).append(rule)
        return [self._of(rule, ends) for rule in rules]

    def _of(
        self, rule: KeyRule, ends: Mapping[TableKey, Sequence[Endpoint]]
    ) -> tuple[KeyCondition, ...]:
        keys = self.keys
        match rule:
            case RepeatedId(type_):
                return (Distinct(keys.incoming_texts(type_, "id")),)
            case NewId(type_):
                return (self._is_new(type_),) if keys.has_committed(type_) else ()
            case UniqueValue(type_, number):
                return self._is_unshared(type_, unique_name(number))
            case Endpoint():
                return (self._are_known(rule.node_key, ends[rule.node_key]),)
            case EdgeCount(edge, siblings):
                return self._is_counted_together(rule) if siblings else self._is_counted(edge)
            case OrphanedEdge(edge, column):
                wanted = keys.committed_texts(edge, column)
                node = type_of(keys.load.catalog, rule.node_key)
                return (Subset(wanted, keys.incoming_texts(node, "id")),) if wanted else ()
            case _:
                assert_never(rule)

    def _is_new(self, type_: Type) -> KeyCondition:
        committed, lookup = self.keys.texts_or_lookup(type_, "id")
        return Disjoint(self.keys.incoming_texts(type_, "id"), committed, lookup)

    def _is_unshared(self, type_: Type, name: str) -> tuple[KeyCondition, ...]:
        keys = self.keys
        if self._may_replace(type_):
            # As a rule, a replaced row holds the value that it held before. A value that moves from
            # one row to another is not proven here, and found right by the join.
            committed, lookup = keys.pairs_or_lookup(type_, name, "id")
            return (Paired(keys.incoming_pairs(type_, name, "id"), committed, lookup),)
        incoming = keys.incoming_texts(type_, name)
        texts, lookup = keys.texts_or_lookup(type_, name)
        apart = (Disjoint(incoming, (), lookup),) if lookup else ()
        return (Distinct((*incoming, *texts)), *apart)

    def _may_replace(self, type_: Type) -> bool:
        """May a row of the input replace a committed row?"""
        return self.keys.load.mode is LoadMode.MERGE and self.keys.has_given_ids(type_)

    def _are_known(self, node_key: TableKey, ends: Sequence[Endpoint]) -> KeyCondition:
        """One condition for all ends at one node type, so that its ids are hashed once."""
        keys, node = self.keys, type_of(self.keys.load.catalog, node_key)
        wanted = [texts for each in ends for texts in keys.incoming_texts(each.edge, each.column)]
        committed, lookup = keys.texts_or_lookup(node, "id")
        return Subset(tuple(wanted), (*keys.incoming_texts(node, "id"), *committed), lookup)

    def _is_counted_together(self, rule: EdgeCount) -> tuple[KeyCondition, ...]:
        """Several tables, in which edges have ids of their own."""
        keys, low, high = self.keys, rule.edge.cardinality.low, rule.edge.cardinality.high
        touched = [texts for each in rule.edges for texts in keys.incoming_texts(each, "src")]
        if any(map(self._may_replace, rule.edges)):
            # Which source a replaced edge left is for the joins: a text is never apart from itself.
            return (Disjoint(tuple(touched), tuple(touched)),)
        found = [keys.texts_or_lookup(each, "src") for each in rule.edges]
        every = (*touched, *(texts for some, _ in found for texts in some))
        stored = tuple(lookup for _, some in found for lookup in some)
        new = tuple(
            self._is_new(each)
            for each in rule.edges
            if keys.has_committed(each) and keys.has_given_ids(each)
        )
        return (Counted(every, low, high, stored), *new)

    def _is_counted(self, edge: EdgeType) -> tuple[KeyCondition, ...]:
        keys, low, high = self.keys, edge.cardinality.low, edge.cardinality.high
        if self._may_replace(edge):
            # A replaced edge counts once, unless it left another source before.
            committed, lookup = keys.pairs_or_lookup(edge, "id", "src")
            stayed = Paired(keys.incoming_pairs(edge, "id", "src"), committed, lookup)
            committed, lookup = keys.pairs_or_lookup(edge, "src", "id")
            incoming = keys.incoming_pairs(edge, "src", "id")
            return (stayed, CountedPairs(incoming, committed, low, high, lookup))
        new: tuple[KeyCondition, ...] = ()
        if keys.has_committed(edge) and keys.has_given_ids(edge):
            # An appended edge with a committed id is a conflict; it does not count twice.
            new = (self._is_new(edge),)
        texts, lookup = keys.texts_or_lookup(edge, "src")
        every = (*keys.incoming_texts(edge, "src"), *texts)
        return (Counted(every, low, high, lookup), *new)
