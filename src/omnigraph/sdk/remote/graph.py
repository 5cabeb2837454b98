"""A graph behind a server, with the interface of an embedded one.

`omnigraph.connect("https://host", graph="research", token=…)` gives one. Who writes is the token's
affair: an actor cannot be named. What is written is written once, also if an answer gets lost.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from omnigraph.commit.manifest.branches import Deleted
from omnigraph.engine.merge.run import MergeResult
from omnigraph.engine.write.batch import Existing, check_ids
from omnigraph.engine.write.mutate import MutationResult
from omnigraph.engine.write.steps import DeleteStep, ProgramStep, RowsStep, WriteStep
from omnigraph.ids import MAIN, BranchName
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.files import read_text
from omnigraph.sdk.handles import Branch, Closed
from omnigraph.sdk.remote.bulk import RemoteBulk
from omnigraph.sdk.remote.decoding import (
    decode_merge,
    decode_mutation,
    decoded,
)
from omnigraph.sdk.remote.http import ServerConnection, segment
from omnigraph.sdk.remote.reads import check_actor, spell_params
from omnigraph.sdk.spelling import spell
from omnigraph.wire.replies import (
    BranchCreateReply,
    BranchesReply,
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
        check_actor(actor)
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
        check_actor(actor)
        self.ask_delete(name, idempotency_key=idempotency_key)
        return Deleted(BranchName(name), ())

    def ask_delete(self, name: str, *, idempotency_key: str | None = None) -> dict[str, Any]:
        """The same, with all that the server answers."""
        path = f"/branches/{segment(name)}"
        return self._connection.write("DELETE", path, key=idempotency_key)


class RemoteGraph(RemoteBulk, GraphClient):
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
            "params": spell_params(params),
            "branch": branch,
            "expect_mutation": True,
        }
        path = f"/queries/{segment(name)}"
        if if_commit is not None:
            path += "/if-graph-commit"
        return self._change(
            path, body, None, key=idempotency_key, if_commit=if_commit, message=message
        )

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
        check_actor(actor)
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
        check_actor(actor)
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


def connect(url: str, *, graph: str | None = None, token: str | None = None) -> RemoteGraph:
    """A graph on a server.

    `url` is the server's, with `graph` naming one of its graphs; or already that of a graph.
    Nothing is asked yet: the first call finds out who answers.
    """
    base = url.rstrip("/")
    return RemoteGraph(
        ServerConnection(base if graph is None else f"{base}/graphs/{segment(graph)}", token=token)
    )


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
            return {"op": "mutate", **program, "params": spell_params(step.params)}
        case RowsStep():
            verb = "insert" if step.existing is Existing.REFUSE else "upsert"
            return {"op": verb, "type": step.type_name, "rows": spell(list(step.rows))}
        case DeleteStep():
            check_ids(step.ids)
            return {"op": "delete", "type": step.type_name, "ids": sorted(step.ids)}
