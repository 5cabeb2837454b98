"""Reads of a graph on a server: queries, entities, blobs, snapshots, commits."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.model import Catalog
from omnigraph.catalog.outline import SchemaOutline
from omnigraph.commit.manifest.records import Commit
from omnigraph.commit.manifest.snapshot import ManifestSnapshot
from omnigraph.engine.query.blob import BlobName
from omnigraph.engine.query.reading import Explanation
from omnigraph.errors import NotARead, UsageError
from omnigraph.ids import MAIN
from omnigraph.lang.source import Source
from omnigraph.sdk.files import read_text
from omnigraph.sdk.frames import plain
from omnigraph.sdk.moments import target_of
from omnigraph.sdk.prepared import AsyncPreparedRead
from omnigraph.sdk.remote.blob import AsyncBlob, open_remote_blob
from omnigraph.sdk.remote.decoding import (
    decode_commit,
    decode_commits,
    decode_snapshot,
    decoded,
)
from omnigraph.sdk.remote.http import segment
from omnigraph.sdk.remote.result import RemoteResult, decode_result
from omnigraph.sdk.remote.review import AsyncReview
from omnigraph.sdk.spelling import spell
from omnigraph.wire.media import ARROW
from omnigraph.wire.replies import (
    ExplainReply,
    OutlineReply,
    SchemaReply,
)


class AsyncReads(AsyncReview):
    """The part of a graph on a server that reads one state."""

    @property
    async def schema_source(self) -> str:
        """The schema in force, as it was written."""
        document = await self._connection.get("/schema")
        return decoded(self.uri, document, SchemaReply.model_validate).schema_source

    @property
    async def catalog(self) -> Catalog:
        """What the schema in force means."""
        return compile_schema(Source(f"{self.uri}/schema", await self.schema_source), in_force=True)

    async def describe(
        self,
        *,
        types: Sequence[str] = (),
        question: str | None = None,
        budget: int | None = None,
        samples: int = 0,
    ) -> SchemaOutline:
        """The schema in few tokens: whole, by types, or by what the words of a question touch."""
        asked = {"type": list(types), "question": question, "budget": budget, "samples": samples}
        document = await self._connection.get("/describe", asked)
        reply = decoded(self.uri, document, OutlineReply.model_validate)
        return SchemaOutline(reply.text, reply.tokens, tuple(reply.types), tuple(reply.omitted))

    async def snapshot(
        self,
        branch: str | None = None,
        *,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
    ) -> ManifestSnapshot:
        """The table versions of a state. `at` gives the same state with its reads."""
        asked = moment_of(branch, commit=commit, version=version, at=at)
        asked["commit"] = asked.pop("snapshot")
        return decoded(self.uri, await self._connection.get("/snapshot", asked), decode_snapshot)

    async def schema_at(self, snapshot: ManifestSnapshot) -> str:
        """The text of the schema under which a snapshot was committed."""
        asked = {"branch": snapshot.branch, "version": snapshot.manifest_version}
        document = await self._connection.get("/schema", asked)
        return decoded(self.uri, document, SchemaReply.model_validate).schema_source

    async def explain(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        analyze: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - the server's limit
    ) -> Explanation:
        """The plan of a query; with `analyze`, run it and add what each operator did."""
        body = {
            "query": read_text(source)[0],
            "name": name,
            "params": spell_params(params),
            **moment_of(branch, snapshot=snapshot),
            "analyze": analyze,
            "timeout": timeout,
        }
        reply = decoded(
            self.uri, await self._connection.post("/explain", body), ExplainReply.model_validate
        )
        text = "\n".join(reply.plan)
        return Explanation(reply.query_name, text, tuple(reply.steps), reply.row_count)

    async def prepare(
        self, source: str | Path, *, name: str | None = None
    ) -> AsyncPreparedRead[RemoteResult]:
        """A read to run often: `statement = await graph.prepare(text)`, `await statement(lo=2)`.

        The server checks it now, and keeps the plans of the texts it ran last. Raises QueryInvalid,
        QueryNotFound, NotARead.
        """
        text = read_text(source)[0]
        checked = await self.explain(text, name=name)
        if checked.text.startswith("mutation "):
            raise NotARead(checked.query_name)
        return AsyncPreparedRead(checked.query_name, partial(self.query, text, name=name))

    async def query(
        self,
        source: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        branch: str | None = None,
        commit: str | None = None,
        snapshot: ManifestSnapshot | str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the server's limit
    ) -> RemoteResult:
        """Run a read on one snapshot: a branch as it is now, or the past.

        Of the past: a `commit` or a `snapshot`, a branch at a `version` of its manifest, or a
        branch as it was `at` a time. The server stops it after `timeout` seconds, or earlier if
        its own limit is shorter. Raises QueryTimeout, also if no answer comes by then.
        """
        body = {
            "query": read_text(source)[0],
            "name": name,
            "params": spell_params(params),
            **moment_of(branch, snapshot=snapshot, commit=commit, version=version, at=at),
            "timeout": timeout,
        }
        return await self._read("/query", body, timeout)

    async def _read(
        self, path: str, body: Mapping[str, object], limit_s: float | None
    ) -> RemoteResult:
        return self._result(
            await self._connection.fetch("POST", path, ARROW, body=body, patience_s=limit_s)
        )

    async def look_up(
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
            **moment_of(branch, snapshot=snapshot, commit=commit, version=version, at=at),
        }
        return self._result(await self._connection.fetch("GET", "/entity", ARROW, params=asked))

    def _result(self, content: bytes) -> RemoteResult:
        return decode_result(self.uri, content)

    async def run_stored(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        branch: str | None = None,
        commit: str | None = None,
        version: int | None = None,
        at: datetime | str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the server's limit
    ) -> RemoteResult:
        """Run a read that the server knows by name."""
        body = {
            "params": spell_params(params),
            **moment_of(branch, commit=commit, version=version, at=at),
            "expect_mutation": False,
            "timeout": timeout,
        }
        return await self._read(f"/queries/{segment(name)}", body, timeout)

    async def stored_queries(self) -> dict[str, Any]:
        """The queries that the server knows by name, with their parameters."""
        return await self._connection.get("/queries")

    async def commits(
        self,
        branch: str = MAIN,
        *,
        actor: str | None = None,
        since_us: int | None = None,
        limit: int | None = None,
        merged: bool = False,
    ) -> tuple[Commit, ...]:
        """The history of a branch, newest first. `actor=""` finds commits without one."""
        asked = {
            "branch": branch,
            "actor": actor,
            "since": since_us,
            "limit": limit,
            "merged": merged or None,
        }
        return decoded(self.uri, await self._connection.get("/commits", asked), decode_commits)

    async def commit(self, commit_id: str) -> Commit:
        document = await self._connection.get(f"/commits/{segment(commit_id)}")
        return decoded(self.uri, document, decode_commit)

    async def blob(
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
    ) -> AsyncBlob:
        """What one property of one node or edge holds, to read parts of: now or in the past."""
        name = BlobName(entity, type_name, identity, property_name)
        moment = moment_of(branch, snapshot=snapshot, commit=commit, version=version, at=at)
        return await open_remote_blob(self._connection, name, moment)


def moment_of(
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


def spell_params(given: object) -> object:
    """Raises UsageError."""
    if given is not None and not isinstance(given, Mapping):
        raise UsageError("parameters are an object of names and values")
    return spell(plain(given))


def check_actor(actor: str | None) -> None:
    if actor is not None:
        raise UsageError("a server knows who writes by the token; do not name an actor")
