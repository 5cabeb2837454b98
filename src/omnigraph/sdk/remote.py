"""A graph behind a server, with the interface of an embedded one.

`omnigraph.connect("https://host", graph="research", token=…)` gives one. Who writes is the token's
affair: an actor cannot be named. What is written is written once, also if an answer gets lost.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.commit.manifest.branches import Deleted
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.load.bulk import ERRORS_MAX, LoadMode
from omnigraph.engine.load.export import ExportFormat, ExportResult, Selection, select_pins
from omnigraph.engine.load.run import LoadResult
from omnigraph.engine.maintain.optimize import OptimizeResult, decode_table
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.query.blob import BlobName, OpenBlob
from omnigraph.engine.query.reading import Explanation
from omnigraph.engine.schema.apply import SchemaResult
from omnigraph.engine.schema.plan import SchemaPlan, decode_schema_plan
from omnigraph.engine.write.batch import Existing, check_ids
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.engine.write.steps import DeleteStep, ProgramStep, RowsStep, WriteStep
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, BranchName
from omnigraph.lang.source import Source
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.closed import Closed
from omnigraph.sdk.decoding import (
    decode_commit,
    decode_commits,
    decode_load,
    decode_merge,
    decode_mutation,
    decode_schema_result,
    decode_snapshot,
    decoded,
)
from omnigraph.sdk.handles import Branch
from omnigraph.sdk.http import ServerConnection, segment, whole_lines
from omnigraph.sdk.moments import target_of
from omnigraph.sdk.reading import RemoteResult, decode_result
from omnigraph.sdk.remote_blob import open_remote_blob
from omnigraph.sdk.remote_review import RemoteReview
from omnigraph.sdk.spelling import spell
from omnigraph.sdk.texts import read_text
from omnigraph.wire.media import ARROW, NDJSON
from omnigraph.wire.replies import (
    BranchCreateReply,
    BranchesReply,
    ExplainReply,
    OptimizeReply,
    SchemaReply,
)


class RemoteBranches:
    """The branches of a graph."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection

    def list(self) -> tuple[BranchName, ...]:
        """Main first, then the others by name."""
        document = self._connection.get("/branches")
        reply = decoded(self._connection.url, document, BranchesReply.model_validate)
        others = sorted(each for each in reply.branches if each != MAIN)
        return (MAIN, *(BranchName(each) for each in others))

    def create(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> BranchName:
        """A branch that starts as `source` is now, or as `commit` left the graph."""
        _check_actor(actor)
        document = self.ask_create(
            name, source=source, commit=commit, idempotency_key=idempotency_key
        )
        reply = decoded(self._connection.url, document, BranchCreateReply.model_validate)
        return BranchName(reply.name)

    def ask_create(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """The same, with all that the server answers: who it was for, too."""
        body = {"name": name, "from": source, "commit": commit}
        return self._connection.write("POST", "/branches", body, key=idempotency_key)

    def delete(
        self, name: str, *, actor: str | None = None, idempotency_key: str | None = None
    ) -> Deleted:
        _check_actor(actor)
        self.ask_delete(name, idempotency_key=idempotency_key)
        return Deleted(BranchName(name), ())

    def ask_delete(self, name: str, *, idempotency_key: str | None = None) -> dict[str, Any]:
        """The same, with all that the server answers."""
        path = f"/branches/{segment(name)}"
        return self._connection.write("DELETE", path, key=idempotency_key)


class RemoteGraph(RemoteReview, GraphClient):
    """A graph on a server. Safe to share among threads; close it, or use it in a `with`."""

    def __init__(self, connection: ServerConnection) -> None:
        super().__init__(connection)
        self._branches = RemoteBranches(connection)
        self._place = connection.url

    @property
    def branches(self) -> RemoteBranches:
        """The branches: `list`, `create`, `delete`."""
        return self._branches

    def __repr__(self) -> str:
        return f"RemoteGraph({self._place!r})"

    def close(self) -> None:
        """Close the connection. Later calls raise GraphClosed; closing again does nothing."""
        self._connection.close()
        self._connection = cast("ServerConnection", Closed(self._place))
        self._branches = RemoteBranches(self._connection)

    @property
    def uri(self) -> str:
        return self._connection.url

    @property
    def schema_source(self) -> str:
        """The schema in force, as it was written."""
        document = self._connection.get("/schema")
        return decoded(self.uri, document, SchemaReply.model_validate).schema_source

    @property
    def catalog(self) -> Catalog:
        """What the schema in force means."""
        return compile_schema(Source(f"{self.uri}/schema", self.schema_source), in_force=True)

    # reading

    def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> ManifestSnapshot:
        """The table versions of a state. `at` gives the same state with its reads."""
        asked = _moment(branch, commit=commit, version=version, at=at)
        asked["commit"] = asked.pop("snapshot")
        return decoded(self.uri, self._connection.get("/snapshot", asked), decode_snapshot)

    def schema_at(self, snapshot: ManifestSnapshot) -> str:
        """The text of the schema under which a snapshot was committed."""
        asked = {"branch": snapshot.branch, "version": snapshot.manifest_version}
        document = self._connection.get("/schema", asked)
        return decoded(self.uri, document, SchemaReply.model_validate).schema_source

    def explain(
        self,
        source: str | Path,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        analyze: bool = False,
        timeout: float | None = None,
    ) -> Explanation:
        """The plan of a query; with `analyze`, run it and add what each operator did."""
        body = {
            "query": read_text(source)[0],
            "name": name,
            "params": _params(params),
            **_moment(branch, snapshot=snapshot),
            "analyze": analyze,
            "timeout": timeout,
        }
        reply = decoded(
            self.uri, self._connection.post("/explain", body), ExplainReply.model_validate
        )
        text = "\n".join(reply.plan)
        return Explanation(reply.query_name, text, tuple(reply.steps), reply.row_count)

    def query(
        self,
        source: str | Path,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        commit: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,
    ) -> RemoteResult:
        """Run a read on one snapshot: a branch as it is now, or the past.

        Of the past: a `commit` or a `snapshot`, a branch at a `version` of its manifest, or a
        branch as it was `at` a time. The server stops it after `timeout` seconds, or earlier if
        its own limit is shorter. Raises QueryTimeout, also if no answer comes by then.
        """
        body = {
            "query": read_text(source)[0],
            "name": name,
            "params": _params(params),
            **_moment(branch, snapshot=snapshot, commit=commit, version=version, at=at),
            "timeout": timeout,
        }
        return self._read("/query", body, timeout)

    def _read(self, path: str, body: Mapping[str, object], timeout: float | None) -> RemoteResult:
        return self._result(
            self._connection.fetch("POST", path, ARROW, body=body, patience_s=timeout)
        )

    def find(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> dict[str, object] | None:
        """One node or edge by its id, now or in the past; None if there is none."""
        found = self.look_up(
            type_name,
            identity,
            branch=branch,
            snapshot=snapshot,
            commit=commit,
            version=version,
            at=at,
        ).rows()
        return found[0] if found else None

    def look_up(
        self,
        type_name: str,
        identity: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> RemoteResult:
        """What `find` finds, as a result of one row or none."""
        asked = {
            "type": type_name,
            "id": identity,
            **_moment(branch, snapshot=snapshot, commit=commit, version=version, at=at),
        }
        return self._result(self._connection.fetch("GET", "/entity", ARROW, params=asked))

    def _result(self, content: bytes) -> RemoteResult:
        return decode_result(self.uri, content)

    def run_stored(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,
    ) -> RemoteResult:
        """Run a read that the server knows by name."""
        body = {
            "params": _params(params),
            **_moment(branch, commit=commit, version=version, at=at),
            "expect_mutation": False,
            "timeout": timeout,
        }
        return self._read(f"/queries/{segment(name)}", body, timeout)

    def mutate_stored(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> MutationResult:
        """Run a mutation that the server knows by name."""
        body = {
            "params": _params(params),
            "branch": branch,
            "expect_mutation": True,
        }
        path = f"/queries/{segment(name)}"
        if if_commit is not None:
            path += "/if-graph-commit"
        return self._change(
            path, body, None, key=idempotency_key, if_commit=if_commit, message=message
        )

    def stored_queries(self) -> dict[str, Any]:
        """The queries that the server knows by name, with their parameters."""
        return self._connection.get("/queries")

    def commits(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since_us: int | None = None,
        limit: int | None = None,
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. `actor=""` finds commits without one."""
        asked = {"branch": branch, "actor": actor, "since": since_us, "limit": limit}
        return decoded(self.uri, self._connection.get("/commits", asked), decode_commits)

    def commit(self, commit_id: str) -> Commit:
        document = self._connection.get(f"/commits/{segment(commit_id)}")
        return decoded(self.uri, document, decode_commit)

    def blob(
        self,
        entity: str,
        type_name: str,
        identity: str,
        property_name: str,
        *,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> OpenBlob:
        """What one property of one node or edge holds, to read parts of: now or in the past."""
        name = BlobName(entity, type_name, identity, property_name)
        moment = _moment(branch, snapshot=snapshot, commit=commit, version=version, at=at)
        return open_remote_blob(self._connection, name, moment)

    # writing

    def write(
        self,
        steps: Sequence[WriteStep],
        *,
        branch: str = MAIN,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run steps in order, as one commit or not at all."""
        if len(steps) == 1:
            path, body = _request_of(steps[0])
            if path == "/mutate" and if_commit is not None:
                path = "/mutate/if-graph-commit"
        else:
            path, body = "/transaction", {"steps": [_step_of(each) for each in steps]}
        return self._change(
            path,
            {**body, "branch": branch},
            actor,
            key=idempotency_key,
            if_commit=if_commit,
            message=message,
        )

    def _change(
        self,
        path: str,
        body: Mapping[str, object],
        actor: str | None,
        *,
        key: str | None,
        if_commit: str | None,
        message: str | None,
    ) -> MutationResult:
        _check_actor(actor)
        document = self._connection.write(
            "POST", path, body, key=key, if_commit=if_commit, message=message
        )
        return decoded(self.uri, document, decode_mutation)

    def merge(
        self,
        source: str | Branch,
        into: str | Branch = MAIN,
        *,
        actor: str | None = None,
        detect: str = "row",
        on_conflict: str | Mapping[str, str] | None = None,
        resolutions: str | Path | None = None,
        base: str | None = None,
        dry_run: bool = False,
        delete_branch: bool = False,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Make `into` show what `source` changed since they last agreed."""
        _check_actor(actor)
        body = {
            "source": str(source),
            "target": str(into),
            "detect": detect,
            "on_conflict": on_conflict,
            "resolutions": None if resolutions is None else read_text(resolutions)[0],
            "base": base,
            "dry_run": dry_run,
            "delete_branch": delete_branch,
        }
        document = self._connection.write(
            "POST", "/branches/merge", body, key=idempotency_key, message=message
        )
        return decoded(self.uri, document, decode_merge)

    def load(
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
    ) -> LoadResult:
        """Send files and load them as one commit, or nothing.

        A source is a file, a folder or a pattern, or `-` for standard input; or a list of these.
        Parquet and CSV files are tables: `type` or `edge` says what their rows are.
        """
        _check_actor(actor)
        from omnigraph.sdk.sending import open_sources  # noqa: PLC0415 - it brings buckets along

        with open_sources(source) as files:
            document = self._connection.send(
                "/load/files",
                files,
                key=idempotency_key,
                message=message,
                params={
                    "branch": branch,
                    "from": from_branch,
                    "mode": str(mode),
                    "type": type,
                    "edge": edge,
                    "map": [f"{name}={column}" for name, column in (mapping or {}).items()],
                    "max_errors": max_errors,
                },
            )
        return decoded(self.uri, document, decode_load)

    # exporting

    def export(
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
        from omnigraph.sdk.exporting import write_output  # noqa: PLC0415 - brings the engine

        shown = self.snapshot(branch, commit=commit, version=version)
        pins = select_pins(shown, Selection(tuple(types), tuple(tables)))
        write_output(
            output,
            self.export_lines(
                types=types, tables=tables, branch=shown.branch, version=shown.manifest_version
            ),
        )
        return ExportResult(
            branch=shown.branch,
            commit=shown.commit,
            format=ExportFormat.JSONL,
            output=str(output) if isinstance(output, str | Path) else "-",
            counts={pin.key: pin.row_count for pin in pins},
        )

    def export_lines(
        self,
        *,
        types: Collection[str] = (),
        tables: Collection[str] = (),
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
    ) -> Iterator[bytes]:
        """Every node and edge of a snapshot, some whole lines at a time."""
        body = {
            "branch": branch,
            "snapshot": commit,
            "version": version,
            "type_names": list(types),
            "table_keys": list(tables),
        }
        with self._connection.stream("POST", "/export", NDJSON, json=body) as pieces:
            yield from whole_lines(pieces)

    # the schema, and upkeep

    def plan_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
    ) -> SchemaPlan:
        """What another schema would change: its steps, and what they do to which tables."""
        body = _schema_body(schema, backfill, allow_data_loss=allow_data_loss)
        return decoded(self.uri, self._connection.post("/schema/plan", body), decode_schema_plan)

    def apply_schema(
        self,
        schema: str | Path,
        *,
        allow_data_loss: bool = False,
        backfill: Mapping[str, str] | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
        message: str | None = None,
    ) -> SchemaResult:
        """Put another schema in force: one commit, or none if it changes nothing."""
        _check_actor(actor)
        body = _schema_body(schema, backfill, allow_data_loss=allow_data_loss)
        document = self._connection.write(
            "POST", "/schema/apply", body, key=idempotency_key, message=message
        )
        return decoded(self.uri, document, decode_schema_result)

    def optimize(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> OptimizeResult:
        """Put small fragments together and bring the indexes up to date. Removes nothing."""
        _check_actor(actor)
        asked = {"branch": branch}
        document = self._connection.write("POST", "/optimize", key=idempotency_key, params=asked)
        reply = decoded(self.uri, document, OptimizeReply.model_validate)
        commits = tuple(map(self.commit, reply.commits))
        return decoded(
            self.uri,
            reply.tables,
            lambda tables: OptimizeResult(
                BranchName(reply.branch), tuple(map(decode_table, tables)), commits
            ),
        )


def connect(url: str, *, graph: str | None = None, token: str | None = None) -> RemoteGraph:
    """A graph on a server.

    `url` is the server's, with `graph` naming one of its graphs; or already that of a graph.
    Nothing is asked yet: the first call finds out who answers.
    """
    base = url.rstrip("/")
    return RemoteGraph(
        ServerConnection(base if graph is None else f"{base}/graphs/{segment(graph)}", token=token)
    )


def _moment(
    branch: str | None,
    *,
    snapshot: ManifestSnapshot | str | None = None,
    commit: str | None = None,
    version: int | None = None,
    at: datetime | str | None = None,
) -> dict[str, object]:
    """Where and when to read, in the words of requests. Raises UsageError."""
    target_of(branch, snapshot=snapshot, commit=commit, version=version, at=at)
    if isinstance(snapshot, ManifestSnapshot):
        if snapshot.commit is None:
            return {"branch": snapshot.branch, "version": snapshot.manifest_version}
        return {"snapshot": snapshot.commit.id}
    if isinstance(at, datetime):
        at = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).isoformat()
    return {"branch": branch, "snapshot": snapshot or commit, "version": version, "at": at}


def _params(given: object) -> object:
    """Raises UsageError."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError("parameters are an object of names and values")
    return spell(given)


def _schema_body(
    schema: str | Path, backfill: Mapping[str, str] | None, *, allow_data_loss: bool
) -> dict[str, object]:
    return {
        "schema_source": read_text(schema)[0],
        "allow_data_loss": allow_data_loss,
        "backfill": None if backfill is None else dict(backfill),
    }


def _check_actor(actor: str | None) -> None:
    if actor is not None:
        raise UsageError("a server knows who writes by the token; do not name an actor")


def _request_of(step: WriteStep) -> tuple[str, dict[str, object]]:
    """The route of one step, and its body."""
    body = _step_of(step)
    match body.pop("op"):
        case "mutate":
            return "/mutate", body
        case "delete":
            return "/rows/delete", body
        case verb:
            return "/rows", {**body, "existing": "refuse" if verb == "insert" else "replace"}


def _step_of(step: WriteStep) -> dict[str, object]:
    """A step as a transaction spells it. Raises UsageError."""
    match step:
        case ProgramStep():
            program = {"query": step.source.text, "name": step.name}
            return {"op": "mutate", **program, "params": _params(step.params)}
        case RowsStep():
            verb = "insert" if step.existing is Existing.REFUSE else "upsert"
            return {"op": verb, "type": step.type_name, "rows": spell(list(step.rows))}
        case DeleteStep():
            check_ids(step.ids)
            return {"op": "delete", "type": step.type_name, "ids": sorted(step.ids)}
