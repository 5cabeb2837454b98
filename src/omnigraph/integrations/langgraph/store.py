"""LangGraph's long-term memory: items in namespaces, on a branch, or on a branch per thread."""

import asyncio
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from langgraph.config import get_config
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)

from omnigraph.effects import REAL
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN
from omnigraph.integrations.langgraph.types import (
    ITEM,
    STORE_TYPES,
    VECTOR,
    ensure_types,
    join_path,
    split_path,
    vector_type,
)
from omnigraph.jsontext import read_json
from omnigraph.sdk.client import GraphClient

_COLUMNS: Final = """$i.path as path, $i.space as space, $i.label as label, $i.value as value,
    $i.vector_count as vector_count, $i.created_at as created_at, $i.updated_at as updated_at"""
_READ: Final = f"""
query read($paths: [String]) {{
  match {{ $i: {ITEM}  $i.path in $paths }}
  return {{ {_COLUMNS} }}
}}
"""
_LIST: Final = f"""
query listed($space: String) {{
  match {{ $i: {ITEM}  $i.space starts_with $space }}
  return {{ {_COLUMNS} }}
  order {{ updated_at desc, path }}
}}
"""
_SPACES: Final = (
    f"query spaces() {{ match {{ $i: {ITEM} }} return {{ $i.space as space, count($i) as n }} }}"
)
_NEAREST: Final = f"""
query near($space: String, $vec: Vector(DIMENSION), $count: I64) {{
  match {{ $v: {VECTOR}  $v.space starts_with $space }}
  return {{ $v.item as item, $v.vec as vec }}
  order {{ nearest($v.vec, $vec) }}
  limit $count
}}
"""
_OVERFETCH: Final = 4
"""An item may have several vectors, and a filter may drop items: fetch more than are wanted."""

_OPERATORS: Final = {"$eq": eq, "$ne": ne, "$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}

Row = dict[str, Any]


class OmnigraphStore(BaseStore):
    """Items of agents as nodes of a graph.

    Args:
        graph: An embedded or a served graph. Its schema gets the types of the store.
        index: How texts become vectors, as for every store of LangGraph; None: no search by words.
        branch: The branch to read and write.
        per_thread: Inside of a run, use the branch `thread/ID` of its thread instead. The branch is
            created at the first write; until then the thread reads `branch`.

    """

    def __init__(
        self,
        graph: GraphClient,
        *,
        index: IndexConfig | None = None,
        branch: str = MAIN,
        per_thread: bool = False,
        actor: str | None = None,
    ) -> None:
        self.graph = graph
        self.branch = branch
        self.index_config = index
        self._per_thread = per_thread
        self._actor = actor
        self._embeddings = None if index is None else ensure_embeddings(index["embed"])
        self._fields = [] if index is None else list(index.get("fields") or ["$"])

    def setup(self) -> None:
        """Add the types of the store to the schema. Raises BranchesExist."""
        ensure_types(self.graph, STORE_TYPES, (ITEM,))
        if self.index_config is not None:
            ensure_types(self.graph, vector_type(self.index_config["dims"]), (VECTOR,))

    def for_thread(self, thread_id: str) -> "OmnigraphStore":
        """The same store on the branch of a thread, which is created if it does not exist."""
        branch = f"thread/{thread_id}"
        self.graph.branch(branch, create=True, source=self.branch, actor=self._actor)
        return OmnigraphStore(self.graph, index=self.index_config, branch=branch, actor=self._actor)

    def merge_thread(self, thread_id: str) -> None:
        """Take what a thread remembered into the branch of the store. Raises MergeConflicts."""
        self.graph.merge(f"thread/{thread_id}", self.branch, actor=self._actor, delete_branch=True)

    # ── the protocol of LangGraph ────────────────────────────────────────────────────────────────

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        listed = list(ops)
        results: list[Result] = [self._answer(each) for each in listed]
        puts = {(each.namespace, each.key): each for each in listed if isinstance(each, PutOp)}
        if puts:
            self._write(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                found = self._read([join_path(*op.namespace, op.key)])
                return _item(found[0]) if found else None
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._list_namespaces(op)
            case PutOp():
                return None
        raise UsageError(f"a store does not know the operation {type(op).__name__}")

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _read(self, paths: Sequence[str]) -> list[Row]:
        return self._rows(_READ, {"paths": list(paths)})

    def _rows(self, program: str, params: dict[str, object]) -> list[Row]:
        return self.graph.query(program, params, branch=self._reading_branch()).rows()

    def _search(self, op: SearchOp) -> list[SearchItem]:
        space = join_path(*op.namespace_prefix)
        if op.query and self._embeddings is not None:
            return self._search_near(op, space, self._embeddings.embed_query(op.query))
        rows = self._rows(_LIST, {"space": space})
        kept = [each for each in rows if _passes(each, op.filter)]
        return [_found(each, None) for each in kept[op.offset : op.offset + op.limit]]

    def _search_near(self, op: SearchOp, space: str, vector: list[float]) -> list[SearchItem]:
        """By the best vector of each item; items without a vector follow, without a score."""
        assert self.index_config is not None
        program = _NEAREST.replace("DIMENSION", str(self.index_config["dims"]))
        wanted = op.offset + op.limit
        count = max(1, wanted * _OVERFETCH)
        unit = _unit(vector)
        while True:
            near = self._rows(program, {"space": space, "vec": unit, "count": count})
            scores: dict[str, float] = {}
            for row in near:
                score = sum(a * b for a, b in zip(unit, row["vec"], strict=True))
                scores[row["item"]] = max(score, scores.get(row["item"], -math.inf))
            rows = {each["path"]: each for each in self._read(list(scores))}
            best = sorted(scores, key=lambda each: (-scores[each], each))
            kept = [each for each in best if each in rows and _passes(rows[each], op.filter)]
            if len(kept) >= wanted or len(near) < count:
                break
            count *= _OVERFETCH
        found = [_found(rows[each], scores[each]) for each in kept]
        if len(found) < wanted:
            others = self._rows(_LIST, {"space": space})
            bare = [each for each in others if each["path"] not in scores]
            found += [_found(each, None) for each in bare if _passes(each, op.filter)]
        return found[op.offset : wanted]

    def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        spaces = {split_path(each["space"]) for each in self._rows(_SPACES, {})}
        conditions = op.match_conditions or ()
        kept = {each for each in spaces if all(_matches(one, each) for one in conditions)}
        if op.max_depth is not None:
            kept = {each[: op.max_depth] for each in kept}
        return sorted(kept)[op.offset : op.offset + op.limit]

    # ── writing ──────────────────────────────────────────────────────────────────────────────────

    def _write(self, puts: Sequence[PutOp]) -> None:
        """All of them as one commit."""
        now = datetime.fromtimestamp(REAL.now_ms() / 1_000, UTC)
        before = {each["path"]: each for each in self._read([_path(each) for each in puts])}
        items: list[dict[str, object]] = []
        vectors: list[dict[str, object]] = []
        gone_items: list[str] = []
        gone_vectors: list[str] = []
        texts = [list(self._texts(each)) for each in puts]
        embedded = iter(self._embed([text for each in texts for text in each]))
        for put, own in zip(puts, texts, strict=True):
            path = _path(put)
            old = before.get(path)
            held = 0 if old is None else old["vector_count"]
            gone_vectors += [f"{path}#{number}" for number in range(len(own), held)]
            if put.value is None:
                gone_items += [path] if old is not None else []
                continue
            space = join_path(*put.namespace)
            items.append(
                {
                    "path": path,
                    "space": space,
                    "label": put.key,
                    "value": json.dumps(dict(put.value), ensure_ascii=False),
                    "vector_count": len(own),
                    "created_at": now if old is None else old["created_at"],
                    "updated_at": now,
                }
            )
            for number, vector in zip(range(len(own)), embedded, strict=False):
                place = f"{path}#{number}"
                vectors.append({"path": place, "item": path, "space": space, "vec": vector})
        if not (items or gone_items or gone_vectors):
            return
        with self.graph.transaction(branch=self._writing_branch(), actor=self._actor) as tx:
            if items:
                tx.upsert(ITEM, items)
            if vectors:
                tx.upsert(VECTOR, vectors)
            if gone_items:
                tx.delete(ITEM, gone_items)
            if gone_vectors:
                tx.delete(VECTOR, gone_vectors)

    def _texts(self, put: PutOp) -> Iterator[str]:
        if put.value is None or put.index is False or self._embeddings is None:
            return
        for field in self._fields if put.index is None else put.index:
            yield from get_text_at_path(put.value, tokenize_path(field))

    def _embed(self, texts: list[str]) -> list[list[float]]:
        if not texts or self._embeddings is None:
            return []
        return [_unit(each) for each in self._embeddings.embed_documents(texts)]

    # ── branches ─────────────────────────────────────────────────────────────────────────────────

    def _thread_branch(self) -> str | None:
        if not self._per_thread:
            return None
        try:
            thread = get_config().get("configurable", {}).get("thread_id")
        except RuntimeError:
            return None  # outside of a run
        return None if thread is None else f"thread/{thread}"

    def _reading_branch(self) -> str:
        branch = self._thread_branch()
        is_there = branch is not None and branch in self.graph.branches.list()
        return branch if branch is not None and is_there else self.branch

    def _writing_branch(self) -> str:
        branch = self._thread_branch()
        if branch is None:
            return self.branch
        self.graph.branch(branch, create=True, source=self.branch, actor=self._actor)
        return branch


def _path(put: PutOp) -> str:
    return join_path(*put.namespace, put.key)


def _unit(vector: Sequence[float]) -> list[float]:
    """At length one, so that the nearest vector is the most similar one."""
    length = math.sqrt(sum(each * each for each in vector))
    return [each / length for each in vector] if length else list(vector)


def _item(row: Row) -> Item:
    return Item(
        value=read_json(row["value"]),
        key=row["label"],
        namespace=split_path(row["space"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _found(row: Row, score: float | None) -> SearchItem:
    return SearchItem(
        namespace=split_path(row["space"]),
        key=row["label"],
        value=read_json(row["value"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        score=score,
    )


def _passes(row: Row, wanted: dict[str, Any] | None) -> bool:
    return not wanted or _fits(read_json(row["value"]), wanted)


def _fits(value: object, wanted: object) -> bool:
    """A filter of LangGraph: equality, or operators such as `{"$gte": 3}`, also nested."""
    if not isinstance(wanted, dict):
        return value == (list(wanted) if isinstance(wanted, tuple) else wanted)
    if any(str(each).startswith("$") for each in wanted):
        return all(_compare(value, name, operand) for name, operand in wanted.items())
    return isinstance(value, dict) and all(
        _fits(value.get(name), each) for name, each in wanted.items()
    )


def _compare(value: Any, name: str, operand: Any) -> bool:
    compare = _OPERATORS.get(name)
    if compare is None:
        raise UsageError(f"a filter has no operator {name!r}; there are {', '.join(_OPERATORS)}")
    if name in ("$eq", "$ne"):
        return bool(compare(value, operand))
    try:
        return bool(compare(float(value), float(operand)))
    except (TypeError, ValueError):
        return False


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(one in ("*", other) for one, other in zip(path, part, strict=True))
