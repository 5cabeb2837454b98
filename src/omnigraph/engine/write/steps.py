"""The steps of one write: a call of the surface is one step, a transaction is several.

1. Steps run in order into one `Pending`, so a step sees the rows that earlier steps wrote and not
   the rows that earlier steps deleted.
2. The rules of the schema are checked once, after the last step. One `Change` and one commit carry
   all steps; if any step fails, no step has an effect.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from omnigraph.catalog.model import Catalog
from omnigraph.compiler.parameters import IntegerEncoding
from omnigraph.effects import Effects
from omnigraph.engine.write.batch import Existing, delete_ids, find_types, read_rows
from omnigraph.engine.write.mutate import WriteTask, parse_program
from omnigraph.engine.write.pending import Affected, Pending
from omnigraph.ids import TableKey
from omnigraph.lang.source import Source


@dataclass(frozen=True, slots=True)
class RowsStep:
    """Write rows of one type; `existing` says what becomes of rows with the same id."""

    type_name: str
    rows: Sequence[Mapping[str, object]]
    existing: Existing


@dataclass(frozen=True, slots=True)
class DeleteStep:
    """Delete rows of one type by id, nodes together with their edges."""

    type_name: str
    ids: Collection[str]


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """Run the inserts, updates or deletes of a query."""

    source: Source
    name: str | None = None
    params: object = None
    binding: IntegerEncoding = IntegerEncoding.NATIVE


WriteStep = RowsStep | DeleteStep | ProgramStep


@dataclass(frozen=True, slots=True)
class TaskSequence(WriteTask):
    """(1) Tasks that run in order into one `Pending`."""

    tasks: Sequence[WriteTask]
    query_name: str | None = None
    """The name of the query, if the one step is a program."""

    @property
    def tables(self) -> Collection[TableKey]:
        return frozenset(key for task in self.tasks for key in task.tables)

    @property
    def strict(self) -> Collection[TableKey]:
        return frozenset(key for task in self.tasks for key in task.strict)

    @property
    def size_bytes(self) -> int:
        return sum(task.size_bytes for task in self.tasks)

    def run(self, pending: Pending) -> Affected:
        return sum((task.run(pending) for task in self.tasks), Affected())


def bind_steps(steps: Sequence[WriteStep], catalog: Catalog, effects: Effects) -> TaskSequence:
    """Everything that can be refused without reading a table is refused here.

    Raises TypeUnknown, ConstraintViolation, UsageError, QueryInvalid, QueryNotFound,
    ParameterInvalid, NotAMutation.
    """
    now_ms = effects.now_ms()
    name = None
    tasks: list[WriteTask] = []
    for step in steps:
        match step:
            case RowsStep():
                types = find_types(catalog, step.type_name)
                tasks += read_rows(types, step.rows, step.existing, effects.new_id)
            case DeleteStep():
                types = find_types(catalog, step.type_name)
                tasks += [delete_ids(catalog, each, step.ids) for each in types]
            case ProgramStep():
                program = parse_program(
                    step.source,
                    catalog,
                    name=step.name,
                    params=step.params,
                    now_ms=now_ms,
                    binding=step.binding,
                )
                tasks.append(program)
                name = program.name
            case _:
                assert_never(step)
    return TaskSequence(tasks, name if len(tasks) == 1 else None)
