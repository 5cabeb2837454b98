"""Loads, exports, schemas and upkeep of a graph on a server."""

from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path
from typing import BinaryIO

from omnigraph.engine.load.bulk import LoadEngine, LoadMode
from omnigraph.engine.load.export import ExportFormat, ExportResult, Selection, select_pins
from omnigraph.engine.load.run import LoadResult
from omnigraph.engine.maintain.optimize import OptimizeResult, decode_table
from omnigraph.engine.schema.apply import SchemaResult
from omnigraph.engine.schema.plan import SchemaPlan, decode_schema_plan
from omnigraph.engine.settings import ERRORS_MAX
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, BranchName
from omnigraph.sdk.files import read_text, write_output
from omnigraph.sdk.remote.decoding import (
    decode_load,
    decode_schema_result,
    decoded,
)
from omnigraph.sdk.remote.http import whole_lines
from omnigraph.sdk.remote.reads import AsyncReads, check_actor
from omnigraph.wire.media import NDJSON
from omnigraph.wire.replies import (
    OptimizeReply,
)


class AsyncBulk(AsyncReads):
    """The part of a graph on a server that moves many rows."""

    async def load(
        self,
        source: object,
        *,
        mode: LoadMode | str,
        type: str | None = None,  # noqa: A002 - as the schema calls it
        edge: str | None = None,
        mapping: Mapping[str, str] | None = None,
        branch: str = MAIN,
        from_branch: str | None = None,
        actor: str | None = None,
        max_errors: int = ERRORS_MAX,
        idempotency_key: str | None = None,
        message: str | None = None,
        engine: LoadEngine | str | None = None,
    ) -> LoadResult:
        """Send files and load them as one commit, or nothing.

        A source is a file, a folder or a pattern, `-` for standard input, a table in memory, or an
        `Input` with one of these; or a list of them. `type` or `edge` says what the rows of
        Parquet, CSV and tables are. Several inputs describe their rows alike.
        `engine` says where the server loads: `auto`, `local` or `spark`.
        """
        check_actor(actor)
        from omnigraph.engine.load.inputs import Input, find_inputs_in
        from omnigraph.sdk.remote.sending import open_sources
        from omnigraph.sdk.tables import find_table, spell_table

        said = Input(None, type=type, edge=edge, mapping=dict(mapping or {}))
        inputs = find_inputs_in(source, said)
        table = spell_table(find_table(inputs) if inputs else said)
        with open_sources([each.data for each in inputs]) as files:
            document = await self._connection.send(
                "/load/files",
                files,
                key=idempotency_key,
                message=message,
                params={
                    "branch": branch,
                    "from": from_branch,
                    "mode": str(mode),
                    **table,
                    "max_errors": max_errors,
                    "engine": None if engine is None else str(engine),
                },
            )
        return decoded(self.uri, document, decode_load)

    async def export(
        self,
        output: str | Path | BinaryIO,
        *,
        format: ExportFormat | str = ExportFormat.JSONL,  # noqa: A002 - the usual name
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> ExportResult:
        """Write all records to a file. A server exports records, not Parquet."""
        if ExportFormat(format) is not ExportFormat.JSONL:
            raise UsageError("a server exports records; open the graph itself for Parquet")
        shown = await self.snapshot(branch, commit=commit, version=version)
        pins = select_pins(shown, Selection(tuple(types), tuple(tables)))
        lines = self.export_lines(
            types=types, tables=tables, branch=shown.branch, version=shown.manifest_version
        )
        await self._connection.consume(lines, lambda pieces: write_output(output, pieces))
        return ExportResult(
            branch=shown.branch,
            commit=shown.commit,
            format=ExportFormat.JSONL,
            output=str(output) if isinstance(output, str | Path) else "-",
            counts={pin.key: pin.row_count for pin in pins},
        )

    async def export_lines(
        self,
        *,
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> AsyncIterator[bytes]:
        """Every node and edge of a snapshot, some whole lines at a time."""
        body = {
            "branch": branch,
            "snapshot": commit,
            "version": version,
            "type_names": list(types),
            "table_keys": list(tables),
        }
        async with self._connection.stream("POST", "/export", NDJSON, json=body) as pieces:
            async for lines in whole_lines(pieces):
                yield lines

    async def plan_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
    ) -> SchemaPlan:
        """What another schema would change: its steps, and what they do to which tables."""
        body = _schema_body(schema, backfill, allow_data_loss=allow_data_loss)
        return decoded(
            self.uri, await self._connection.post("/schema/plan", body), decode_schema_plan
        )

    async def apply_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
        portable: bool = False,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> SchemaResult:
        """Put another schema in force: one commit, or none if it changes nothing."""
        check_actor(actor)
        body = _schema_body(schema, backfill, allow_data_loss=allow_data_loss)
        if portable:
            body["portable"] = True
        document = await self._connection.write(
            "POST", "/schema/apply", body, key=idempotency_key, message=message
        )
        return decoded(self.uri, document, decode_schema_result)

    async def optimize(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> OptimizeResult:
        """Put small fragments together and bring the indexes up to date. Removes nothing."""
        check_actor(actor)
        document = await self._connection.write(
            "POST", "/optimize", key=idempotency_key, message=message, params={"branch": branch}
        )
        reply = decoded(self.uri, document, OptimizeReply.model_validate)
        commits = tuple([await self.commit(each) for each in reply.commits])
        return decoded(
            self.uri,
            reply.tables,
            lambda tables: OptimizeResult(
                BranchName(reply.branch), tuple(map(decode_table, tables)), commits
            ),
        )


def _schema_body(
    schema: str | Path, backfill: Mapping[str, str] | None, *, allow_data_loss: bool
) -> dict[str, object]:
    return {
        "schema_source": read_text(schema)[0],
        "allow_data_loss": allow_data_loss,
        "backfill": None if backfill is None else dict(backfill),
    }
