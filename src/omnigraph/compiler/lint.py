"""A report on a file of queries: which are right, what they touch, and what looks forgotten.

Nothing is run, and nothing raises: a file that does not even parse is a report too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog, NodeType
from omnigraph.catalog.names import spelling_of
from omnigraph.catalog.portability import find_extensions
from omnigraph.compiler.compile import find_faults
from omnigraph.compiler.enum_members import find_missing_members
from omnigraph.compiler.ir import Mutation, Read, Update
from omnigraph.compiler.operation import Operation, describe_operation
from omnigraph.compiler.repair.edits import Repair
from omnigraph.compiler.repair.search import find_repair
from omnigraph.compiler.resolve import CheckedQuery, check_file
from omnigraph.errors import QueryInvalid
from omnigraph.lang.query import ast
from omnigraph.lang.query.parser import parse
from omnigraph.lang.source import Diagnostic, Severity, Source

NO_PARAMETERS = "the mutation declares no parameters, so it does the same every time"


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """The schema was read from a file."""

    path: str

    def to_json(self) -> dict[str, object]:
        return {"kind": "file", "path": self.path}


@dataclass(frozen=True, slots=True)
class SchemaGraph:
    """The schema is the one a graph has accepted."""

    uri: str

    def to_json(self) -> dict[str, object]:
        return {"kind": "graph", "uri": self.uri}


@dataclass(frozen=True, slots=True)
class LintResult:
    """What there is to say about one query."""

    name: str
    kind: str
    """`read` or `mutation`."""
    warnings: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    operation: Operation | None = None
    repair: Repair | None = None
    """The edits of the file that make this query valid, where they are known."""

    @property
    def error(self) -> str | None:
        """Everything that is wrong, a line each; None if nothing is."""
        lines = (f"{each.family}: {each.message} [{each.code}]" for each in self.diagnostics)
        return "\n".join(lines) or None

    @property
    def status(self) -> str:
        return "error" if self.diagnostics else "ok"

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "status": self.status,
        }
        if self.warnings:
            document["warnings"] = list(self.warnings)
        if self.error is not None:
            document["error"] = self.error
            document["diagnostics"] = [each.to_json() for each in self.diagnostics]
        if self.repair is not None:
            document["repair"] = self.repair.to_json()
        if self.operation is not None:
            document["operation"] = self.operation.to_json()
        return document


@dataclass(frozen=True, slots=True)
class LintFinding:
    """What there is to say about the file as a whole."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    repair: Repair | None = None
    """The edits that make the whole file valid, if it does not parse and they are known."""

    def to_json(self) -> dict[str, object]:
        document: dict[str, object] = {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
        }
        if self.type_name is not None:
            document["type_name"] = self.type_name
        if self.property is not None:
            document["property"] = self.property
        if self.query_names:
            document["query_names"] = list(self.query_names)
        if self.diagnostics:
            document["diagnostics"] = [each.to_json() for each in self.diagnostics]
        if self.repair is not None:
            document["repair"] = self.repair.to_json()
        return document


@dataclass(frozen=True, slots=True)
class LintReport:
    schema_source: SchemaFile | SchemaGraph
    query_path: str
    results: tuple[LintResult, ...]
    findings: tuple[LintFinding, ...]

    @property
    def errors(self) -> int:
        failed = sum(bool(each.diagnostics) for each in self.results)
        return failed + self._count(Severity.ERROR)

    @property
    def warnings(self) -> int:
        given = sum(len(each.warnings) for each in self.results)
        return given + self._count(Severity.WARNING)

    @property
    def infos(self) -> int:
        return self._count(Severity.INFO)

    @property
    def status(self) -> str:
        return "error" if self.errors else "ok"

    def _count(self, severity: Severity) -> int:
        return sum(each.severity is severity for each in self.findings)

    def to_json(self) -> dict[str, object]:
        return {
            "status": self.status,
            "schema_source": self.schema_source.to_json(),
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [each.to_json() for each in self.results],
            "findings": [each.to_json() for each in self.findings],
        }

    def lines(self) -> Iterator[str]:
        """The report for people: a line per query, warning and finding, and a summary."""
        for result in self.results:
            label = "ERROR" if result.diagnostics else "OK   "
            yield f"{label} query '{result.name}' ({result.kind})"
            for each in result.diagnostics:
                yield from (f"      {line}" for line in each.render().splitlines())
            yield from _repair_lines(result.repair)
            yield from (f"WARN  query '{result.name}': {each}" for each in result.warnings)
        for finding in self.findings:
            yield f"{_LABELS[finding.severity]} [{finding.code}] {finding.message}"
            yield from _repair_lines(finding.repair)
        yield (
            f"INFO  Lint complete: queries {len(self.results)}, errors {self.errors}, "
            f"warnings {self.warnings}, infos {self.infos}"
        )


def _repair_lines(repair: Repair | None) -> Iterator[str]:
    """Each edit, as the place and the text that belongs there."""
    for edit in () if repair is None else repair.edits:
        yield f"      fix {edit.line}:{edit.column}: write `{edit.replacement.strip()}`"


_LABELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARN ", Severity.INFO: "INFO "}
_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


def lint(
    source: Source, catalog: Catalog, *, schema_source: SchemaFile | SchemaGraph
) -> LintReport:
    """Check every query of a file against a schema."""
    try:
        file = parse(source)
    except QueryInvalid as error:
        faults = tuple(each for each in error.findings if isinstance(each, Diagnostic))
        repair = find_repair(source, faults, catalog, lambda text: find_faults(text, catalog))
        unparsed = LintFinding(
            Severity.ERROR, "Q000", str(error), diagnostics=faults, repair=repair
        )
        return LintReport(schema_source, source.name, (), (unparsed,))
    checked = check_file(file, catalog, source)
    return LintReport(
        schema_source,
        source.name,
        tuple(_report(each, catalog, source) for each in checked),
        tuple(sorted((*_find_never_updated(checked, catalog), *_unportable(catalog)), key=_rank)),
    )


def _unportable(catalog: Catalog) -> Iterator[LintFinding]:
    """L301: what the reference 0.8 does not understand of the schema."""
    for each in find_extensions(catalog):
        message = f"{each}; the reference 0.8 cannot open such a graph"
        type_name = each.entity.partition(":")[2].partition(".")[0]
        yield LintFinding(Severity.INFO, "L301", message, type_name)


def _rank(finding: LintFinding) -> tuple[int, str, str, str]:
    return (
        _RANKS[finding.severity],
        finding.type_name or "",
        finding.property or "",
        finding.message,
    )


def _report(checked: CheckedQuery, catalog: Catalog, source: Source) -> LintResult:
    query = checked.query
    name = query.name.text
    is_mutation = isinstance(query.body, ast.Mutation)
    warnings = [NO_PARAMETERS] if is_mutation and not query.parameters else []
    if isinstance(checked.resolved, Read):
        for part in checked.resolved.parts:
            warnings += find_missing_members(part, source)
    return LintResult(
        name=name,
        kind="mutation" if is_mutation else "read",
        warnings=tuple(warnings),
        diagnostics=checked.diagnostics,
        operation=None
        if checked.resolved is None
        else describe_operation(query, checked.resolved, catalog),
        repair=find_repair(
            source, checked.diagnostics, catalog, lambda text: find_faults(text, catalog, name)
        ),
    )


# ── L201 ─────────────────────────────────────────────────────────────────────────────────────────


def _find_never_updated(checked: Sequence[CheckedQuery], catalog: Catalog) -> Iterator[LintFinding]:
    """L201: nullable properties of updated types that no update of the file ever sets."""
    updates: dict[str, list[tuple[str, Update]]] = {}
    for each in checked:
        if isinstance(each.resolved, Mutation):
            for statement in each.resolved.statements:
                if isinstance(statement, Update):
                    of_type = updates.setdefault(statement.type_name, [])
                    of_type.append((each.resolved.name, statement))
    for type_name, of_type in updates.items():
        node = catalog.node(type_name)
        assert node is not None, "only updates of node types resolve"
        assigned = {each.column for _, update in of_type for each in update.assignments}
        names = tuple(sorted({name for name, _ in of_type}))
        for name in _settable(node):
            if name not in assigned:
                spelt = spelling_of(name)
                message = f"no update in this file sets the nullable property {type_name}.{spelt}"
                yield LintFinding(Severity.WARNING, "L201", message, type_name, spelt, names)


def _settable(node: NodeType) -> Iterator[str]:
    """What an update may set to null: neither part of the key nor made by `@embed`."""
    for each in node.properties:
        if each.type.nullable and each.name not in node.key and each.embed is None:
            yield each.name
