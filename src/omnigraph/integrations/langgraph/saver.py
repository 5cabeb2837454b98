"""LangGraph's checkpointer: the state of threads, one commit for each checkpoint."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key as sort_key,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from omnigraph.ids import MAIN
from omnigraph.integrations.langgraph.types import (
    CHANNEL,
    CHECKPOINT,
    SAVER_TYPES,
    WRITE,
    ensure_types,
    join_path,
)
from omnigraph.sdk.client import GraphClient

_COLUMNS: Final = """$c.path as path, $c.thread as thread, $c.space as space,
    $c.checkpoint as checkpoint, $c.parent as parent, $c.data as data, $c.metadata as metadata"""
_ONE: Final = f"""
query one($path: String) {{
  match {{ $c: {CHECKPOINT} {{ path: $path }} }} return {{ {_COLUMNS} }}
}}
"""
_NEWEST: Final = f"""
query newest($thread: String, $space: String) {{
  match {{ $c: {CHECKPOINT} {{ thread: $thread, space: $space }} }}
  return {{ {_COLUMNS} }} order {{ checkpoint desc }} limit 1
}}
"""
_ALL: Final = f"""
query all_of($threads: [String]?) {{
  match {{ $c: {CHECKPOINT}  ($threads is null or $c.thread in $threads) }}
  return {{ {_COLUMNS} }} order {{ thread, space, checkpoint desc }}
}}
"""
_CHANNELS: Final = f"""
query channels($paths: [String]) {{
  match {{ $b: {CHANNEL}  $b.path in $paths }} return {{ $b.channel as channel, $b.data as data }}
}}
"""
_WRITES: Final = f"""
query writes($places: [String]) {{
  match {{ $w: {WRITE}  $w.place in $places }}
  return {{ $w.path as path, $w.place as place, $w.task as task, $w.task_path as task_path,
           $w.number as number, $w.channel as channel, $w.data as data }}
}}
"""
_OF_THREAD: Final = """
query ids($thread: String) {{
  match {{ $x: {name} {{ thread: $thread }} }} return {{ $x.path as path }}
}}
"""
_EMPTY: Final = "empty"

Row = dict[str, Any]
Rows = list[Row]


class OmnigraphSaver(BaseCheckpointSaver[str]):
    """Checkpoints of threads as nodes of a graph.

    Args:
        graph: An embedded or a served graph. `setup` adds the types to its schema.
        branch: The branch that holds the checkpoints.
        serde: How values become bytes; LangGraph's own by default.

    """

    def __init__(
        self,
        graph: GraphClient,
        *,
        branch: str = MAIN,
        serde: SerializerProtocol | None = None,
        actor: str | None = None,
    ) -> None:
        super().__init__(serde=serde)
        self.graph = graph
        self.branch = branch
        self._actor = actor

    def setup(self) -> None:
        """Add the types of the checkpointer to the schema. Raises BranchesExist."""
        ensure_types(self.graph, SAVER_TYPES, (CHECKPOINT, CHANNEL, WRITE))

    def get_next_version(self, current: str | None, channel: None) -> str:  # noqa: ARG002 - LangGraph's protocol
        """Versions that rise as texts: a counter with leading zeros."""
        counted = 0 if current is None else int(str(current).split(".")[0])
        return f"{counted + 1:032}"

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, space = _place(config)
        checkpoint = get_checkpoint_id(config)
        if checkpoint:
            rows = self._rows(_ONE, {"path": join_path(thread, space, checkpoint)})
        else:
            rows = self._rows(_NEWEST, {"thread": thread, "space": space})
        return next(iter(self._tuples(rows)), None)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name of LangGraph
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        threads = None if config is None else [config["configurable"]["thread_id"]]
        space = None if config is None else config["configurable"].get("checkpoint_ns")
        wanted = None if config is None else get_checkpoint_id(config)
        bound = None if before is None else get_checkpoint_id(before)
        rows = [
            row
            for row in self._rows(_ALL, {"threads": threads})
            if (space is None or row["space"] == space)
            and (not wanted or row["checkpoint"] == wanted)
            and (not bound or row["checkpoint"] < bound)
            and _holds(self._load(row["metadata"]), filter)
        ]
        yield from self._tuples(rows if limit is None else rows[: max(0, limit)])

    def _rows(self, program: str, params: dict[str, object]) -> Rows:
        return self.graph.query(program, params, branch=self.branch).rows()

    def _tuples(self, rows: Sequence[Row]) -> Iterator[CheckpointTuple]:
        places = [row["path"] for row in rows]
        writes: dict[str, Any] = {each: [] for each in places}
        for write in self._rows(_WRITES, {"places": places}) if places else ():
            writes[write["place"]].append(write)
        for row in rows:
            checkpoint: Checkpoint = self._load(row["data"])
            checkpoint["channel_values"] = self._values(row, checkpoint)
            own = sorted(
                writes[row["path"]],
                key=lambda each: sort_key(each["task_path"], each["task"], each["number"]),
            )
            yield CheckpointTuple(
                config=_config(row["thread"], row["space"], row["checkpoint"]),
                checkpoint=checkpoint,
                metadata=self._load(row["metadata"]),
                parent_config=None
                if row["parent"] is None
                else _config(row["thread"], row["space"], row["parent"]),
                pending_writes=[
                    (each["task"], each["channel"], self._load(each["data"])) for each in own
                ],
            )

    def _values(self, row: Row, checkpoint: Checkpoint) -> dict[str, Any]:
        versions = checkpoint["channel_versions"]
        paths = [
            join_path(row["thread"], row["space"], channel, str(version))
            for channel, version in versions.items()
        ]
        found = self._rows(_CHANNELS, {"paths": paths}) if paths else ()
        return {
            each["channel"]: self._load(each["data"])
            for each in found
            if not each["data"].startswith(f"{_EMPTY}:")
        }

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, space = _place(config)
        kept: dict[str, Any] = dict(checkpoint)
        values: dict[str, Any] = kept.pop("channel_values")
        channels = [
            {
                "path": join_path(thread, space, channel, str(version)),
                "thread": thread,
                "channel": channel,
                "data": self._dump(values[channel]) if channel in values else f"{_EMPTY}:",
            }
            for channel, version in new_versions.items()
        ]
        row = {
            "path": join_path(thread, space, checkpoint["id"]),
            "thread": thread,
            "space": space,
            "checkpoint": checkpoint["id"],
            "parent": config["configurable"].get("checkpoint_id"),
            "data": self._dump(kept),
            "metadata": self._dump(get_checkpoint_metadata(config, metadata)),
        }
        with self.graph.transaction(branch=self.branch, actor=self._actor) as tx:
            if channels:
                tx.upsert(CHANNEL, channels)
            tx.upsert(CHECKPOINT, [row])
        return _config(thread, space, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        thread, space = _place(config)
        place = join_path(thread, space, config["configurable"]["checkpoint_id"])
        held = {each["path"] for each in self._rows(_WRITES, {"places": [place]})}
        rows: dict[str, dict[str, object]] = {}
        for at, (channel, value) in enumerate(writes):
            number = WRITES_IDX_MAP.get(channel, at)
            path = f"{place}{join_path(task_id, str(number))}"
            if number >= 0 and path in held:
                continue  # a task that is run again has the same writes
            rows[path] = {
                "path": path,
                "thread": thread,
                "place": place,
                "task": task_id,
                "task_path": task_path,
                "number": number,
                "channel": channel,
                "data": self._dump(value),
            }
        if rows:
            self.graph.upsert(WRITE, [*rows.values()], branch=self.branch, actor=self._actor)

    def delete_thread(self, thread_id: str) -> None:
        gone = {
            name: [
                row["path"]
                for row in self._rows(_OF_THREAD.format(name=name), {"thread": thread_id})
            ]
            for name in (CHECKPOINT, CHANNEL, WRITE)
        }
        if not any(gone.values()):
            return
        with self.graph.transaction(branch=self.branch, actor=self._actor) as tx:
            for name, ids in gone.items():
                if ids:
                    tx.delete(name, ids)

    # ── the same, awaited ────────────────────────────────────────────────────────────────────────

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name of LangGraph
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        def collect() -> tuple[CheckpointTuple, ...]:
            return tuple(self.list(config, filter=filter, before=before, limit=limit))

        for each in await asyncio.to_thread(collect):
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    # ── bytes ────────────────────────────────────────────────────────────────────────────────────

    def _dump(self, value: object) -> str:
        kind, data = self.serde.dumps_typed(value)
        return f"{kind}:{base64.b64encode(data).decode()}"

    def _load(self, text: str) -> Any:
        kind, _, data = text.partition(":")
        return self.serde.loads_typed((kind, base64.b64decode(data)))


def _place(config: RunnableConfig) -> tuple[str, str]:
    found = config["configurable"]
    return found["thread_id"], found.get("checkpoint_ns", "")


def _config(thread: str, space: str, checkpoint: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": space,
            "checkpoint_id": checkpoint,
        }
    }


def _holds(metadata: dict[str, Any], wanted: dict[str, Any] | None) -> bool:
    return all(metadata.get(name) == value for name, value in (wanted or {}).items())
