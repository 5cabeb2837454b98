"""The options of a write, spelled as those of a read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from omnigraph.engine.load.bulk import LoadMode
from omnigraph.engine.load.inputs import Input
from omnigraph.engine.write.idempotency import IdempotencyKey, parse_key
from omnigraph.errors import UsageError
from omnigraph.ids import MAIN, BranchName, parse_branch

OPTIONS: Final = (
    "path",
    "type",
    "edge",
    "mode",
    "branch",
    "actor",
    "message",
    "idempotencyKey",
    "sinkId",
    "changes",
)
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options of a stream that Spark reads, and passes on."""

SHOWN: Final = "<data frame>"
"""What messages call the rows."""


@dataclass(frozen=True, slots=True)
class FrameWriteOptions:
    path: str
    source: Input
    """Which type the rows are of."""
    mode: LoadMode
    branch: BranchName = MAIN
    actor: str | None = None
    message: str | None = None
    idempotency_key: str | None = None
    sink_id: str | None = None
    are_changes: bool = False
    """Are the rows changes of a graph, of any type?"""

    @property
    def idempotency(self) -> IdempotencyKey | None:
        return parse_key(
            self.idempotency_key, "spark write", self.source.shape, str(self.mode), self.branch
        )

    def batch_key(self, batch_id: int) -> IdempotencyKey:
        """The identity of one batch of a stream; its body hash covers nothing else (D41)."""
        kind = "edge" if self.source.type is None else "node"
        types = "*" if self.are_changes else f"{kind}:{self.source.type or self.source.edge}"
        identity = [self.sink_id, str(self.branch), types, batch_id]
        key = parse_key(f"spark-sink:{':'.join(map(str, identity))}", *identity)
        assert key is not None
        return key


def parse_write_options(options: Mapping[str, str], *, overwrite: bool) -> FrameWriteOptions:
    """`options` ignores the case of names. Raises UsageError."""
    known = {each.lower() for each in OPTIONS} | _SPARKS_OWN
    for name in options:
        if name.lower() not in known:
            raise UsageError(f"a write has no option '{name}'; there are {', '.join(OPTIONS)}")
    given = {name.lower(): value for name, value in options.items()}
    if not given.get("path"):
        raise UsageError("say where the graph is: save(path), start(path) or option 'path'")
    are_changes = are_wanted(given.get("changes"))
    if are_changes and ("type" in given or "edge" in given or "mode" in given or overwrite):
        raise UsageError("rows of changes say their type, and what is to be done")
    if not are_changes and ("type" in given) == ("edge" in given):
        raise UsageError("name one type: option 'type', or option 'edge'")
    return FrameWriteOptions(
        path=given["path"],
        source=Input(None, type=given.get("type"), edge=given.get("edge"), name=SHOWN),
        mode=_mode(given.get("mode"), overwrite=overwrite),
        branch=parse_branch(given.get("branch") or MAIN),
        actor=given.get("actor"),
        message=given.get("message"),
        idempotency_key=given.get("idempotencykey"),
        sink_id=given.get("sinkid"),
        are_changes=are_changes,
    )


def are_wanted(given: str | None) -> bool:
    """The option `changes`. Raises UsageError."""
    if given is not None and given.lower() not in ("true", "false"):
        raise UsageError(f"option 'changes' is 'true' or 'false', not '{given}'")
    return given is not None and given.lower() == "true"


def _mode(given: str | None, *, overwrite: bool) -> LoadMode:
    """Spark knows two modes; merging is an option. Raises UsageError."""
    spoken = LoadMode.OVERWRITE if overwrite else LoadMode.APPEND
    if given is None or given == spoken:
        return spoken
    if given != LoadMode.MERGE:
        raise UsageError(
            f"option 'mode' is 'merge' or nothing, not '{given}': say mode(\"{given}\")"
        )
    if overwrite:
        raise UsageError("say mode(\"append\") for a write with option 'mode' 'merge'")
    return LoadMode.MERGE
