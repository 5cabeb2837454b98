"""The result of a load's rules, given which of them are broken: the same for every kind of join."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from omnigraph.engine.load.bulk import CheckResult, Fault, gather_faults
from omnigraph.engine.write.row_rules import KeyRule, NewId, RepeatedId
from omnigraph.pipeline.checks.key_texts import LoadKeys

Rows = TypeVar("Rows")


class Joins(Protocol[Rows]):
    """Finds the rows that break a rule, and their faults."""

    def find(self, rule: KeyRule) -> Rows:
        """Rows that are none if and only if the rule holds."""
        ...

    def report(self, rule: KeyRule, broken: Rows) -> Iterator[Fault]:
        """The faults of a rule, in the order of `engine.load.incoming`."""
        ...

    def find_existing(self, broken: Rows) -> tuple[str, ...]:
        """The appended ids that committed rows have, as many as the load reports."""
        ...


def report_broken(
    load: LoadKeys, joins: Joins[Rows], broken: Sequence[tuple[KeyRule, Rows]]
) -> CheckResult:
    """A load that gives an id twice reports nothing else, where that is a fault."""

    def report(rules: Iterable[tuple[KeyRule, Rows]]) -> Iterable[Fault]:
        return (fault for rule, rows in rules for fault in joins.report(rule, rows))

    repeated = [each for each in broken if isinstance(each[0], RepeatedId)]
    faults = gather_faults(report(repeated or broken), load.errors_max, load.rejects)
    if repeated:
        return CheckResult(faults)
    for rule, rows in broken:
        if isinstance(rule, NewId):
            return CheckResult(
                faults, {rule.type.name: joins.find_existing(rows)}, load.tables_read
            )
    return CheckResult(faults, tables_read=load.tables_read)
