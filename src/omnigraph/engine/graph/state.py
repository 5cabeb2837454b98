"""What every call on an open graph needs: stores, schema in force, gate, upkeep."""

from copy import copy
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from omnigraph.commit.context import WriteContext
from omnigraph.commit.manifest.base import Bases
from omnigraph.commit.manifest.model import Pin
from omnigraph.commit.manifest.snapshot import open_pin
from omnigraph.engine.active_schema import ActiveSchema, SchemaCache
from omnigraph.engine.cancellation import tell
from omnigraph.engine.gate import Action, FindRule, Gate, let_pass, unprotected
from omnigraph.engine.graph.targets import TargetResolver
from omnigraph.engine.query.columns.table_cache import TableCache
from omnigraph.engine.query.reading import Reader
from omnigraph.engine.search.provider import GraphEmbedder, search_provider
from omnigraph.engine.settings import DEFAULTS, Settings
from omnigraph.engine.tables.statistics import KeptStatistics
from omnigraph.errors import Forbidden, OpenedReadOnly, UsageError
from omnigraph.ids import MAIN, BranchName, TableKey, is_encodable
from omnigraph.storage.allocator import freed_memory
from omnigraph.storage.layout import Root
from omnigraph.storage.objects import Objects
from omnigraph.storage.stores import Stores
from omnigraph.storage.tables import Handle, Tables

if TYPE_CHECKING:
    from omnigraph.engine.write.upkeep import Upkeep
    from omnigraph.engine.write.write_queue import WriteQueue


class Mode(Enum):
    READ_WRITE = "read_write"
    READ_ONLY = "read_only"
    """Nothing is ever written: no migration, no recovery, no repair."""


OURS: Final = "omnigraph:"
"""The prefix of the actors that sign recoveries and upkeep. No caller may use it."""

MESSAGE_BYTES_MAX: Final = 4096
"""Every process that opens a branch reads the messages of its commits."""


class OpenGraph:
    """The stores, the schema and the gate of one open graph."""

    def __init__(
        self,
        stores: Stores,
        bases: Bases,
        schema: ActiveSchema,
        mode: Mode,
        *,
        gate: Gate = let_pass,
        find_rule: FindRule = unprotected,
        settings: Settings = DEFAULTS,
    ) -> None:
        self.mode: Final = mode
        self.settings: Final = settings
        self._stores = stores
        self._bases = bases
        self._context = WriteContext(
            stores,
            bases,
            timing=settings.timing,
            observe=tell,
            meter=settings.meter,
            is_grouping=settings.group,
        )
        self._upkeep = self._find_upkeep(schema)
        self._queue = self._find_queue()
        self._schemas = SchemaCache(stores.objects, schema)
        self._targets = TargetResolver(stores, bases, self._schemas)
        self._gate = gate
        self._find_rule = find_rule
        self._actor: str | None = None
        freed_memory.keep()
        embedder = GraphEmbedder(settings.embedding, settings.effects)
        self._reader = Reader(
            stores,
            settings,
            TableCache(settings.query_cache_bytes_max),
            KeptStatistics(stores.mapped),
            search_provider(
                embedder,
                kept_bytes_max=settings.query_cache_bytes_max // 4,
                mapped=stores.mapped,
            ),
        )

    def _find_upkeep(self, schema: ActiveSchema) -> "Upkeep | None":
        if not self.settings.maintenance or self.mode is Mode.READ_ONLY:
            return None
        from omnigraph.engine.write.upkeep import Upkeep

        return Upkeep(self._context, schema.catalog)

    def _find_queue(self) -> "WriteQueue | None":
        if self.mode is Mode.READ_ONLY:
            return None
        from omnigraph.engine.write.write_queue import WriteQueue

        return WriteQueue(self._context)

    def acting_as(self, actor: str | None) -> Self:
        """(2) The same open graph, whose reads the gate decides for this actor."""
        bound = copy(self)
        bound._actor = actor  # noqa: SLF001 - it is of this class
        return bound

    @property
    def uri(self) -> str:
        return self._stores.root.uri

    @property
    def root(self) -> Root:
        return self._stores.root

    @property
    def objects(self) -> Objects:
        """For records that are kept beside the graph, such as jobs."""
        return self._stores.objects

    @property
    def tables(self) -> Tables:
        """For readers of snapshots; a writer names its tables in a `Change`."""
        return self._stores.tables

    def active_schema(self) -> ActiveSchema:
        """The schema in force, also if another process changed it. Raises SchemaFilesInvalid."""
        schema = self._schemas.for_manifest(self._bases.current(MAIN).manifest)
        if self._upkeep is not None:
            self._upkeep.catalog = schema.catalog
        return schema

    def close(self) -> None:
        """Finish what follows writes, and release the leases that this process keeps."""
        self._context.close()

    def known_schema(self) -> ActiveSchema:
        """The schema that was last seen in force, without a look at the store (D30).

        A write under it is refused if another schema is in force by now.
        """
        known = self._bases.known(MAIN)
        return self.active_schema() if known is None else self._schemas.for_manifest(known.manifest)

    def _check_readable(self, branch: BranchName | None, action: Action = Action.READ) -> None:
        """(2) Raises Forbidden."""
        self._gate(self._actor, action, branch)

    def _check_unprotected(self, actor: str | None, action: Action, branch: BranchName) -> None:
        """(3) For everything that changes rows or schema, except merging a proposal (D39).

        Raises Forbidden.
        """
        if self._find_rule(branch) is not None:
            raise Forbidden(actor, action=action, branch=branch, is_protected=True)

    def _check_signer(self, actor: str | None, message: str | None = None) -> None:
        """Raises OpenedReadOnly, UsageError."""
        self.check_writable()
        check_signature(actor, message)

    def check_writable(self) -> None:
        """Raises OpenedReadOnly."""
        if self.mode is Mode.READ_ONLY:
            raise OpenedReadOnly(self.uri)

    def _tidy(self, branch: BranchName, tables: tuple[TableKey, ...]) -> None:
        if self._upkeep is not None:
            self._upkeep.after(branch, tables)

    def _open_pin(self, pin: Pin) -> Handle:
        return open_pin(self._stores, pin)


def check_signature(actor: str | None, message: str | None = None) -> None:
    """Can a commit record this actor and this message? Raises UsageError."""
    if actor is not None:
        if actor.startswith(OURS):
            raise UsageError(f"actors whose names start with '{OURS}' are our own")
        if not is_encodable(actor):
            reason = "half a character cannot be written"
            raise UsageError(f"{actor!r} cannot be an actor: {reason}")
    if message is not None:
        if not is_encodable(message):
            raise UsageError("the message holds half a character, which cannot be written")
        if len(message.encode()) > MESSAGE_BYTES_MAX:
            raise UsageError(f"a message is at most {MESSAGE_BYTES_MAX} bytes of UTF-8")
