"""The graphs that a server has open, and the rules by which it serves them.

A `ServerState` is a value: a request takes the current one and keeps it. A reload builds another
`ServerState` and makes it current; if the build fails, the old one stays. Graphs stay open across
reloads, and their guards follow the new policy at once.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from omnigraph.effects import REAL
from omnigraph.engine.opening import open_graph
from omnigraph.engine.settings import Settings
from omnigraph.errors import ConfigInvalid, GraphNotServed, OmnigraphError, RequestInvalid
from omnigraph.lang.query.parser import grammar
from omnigraph.policy.actions import Action
from omnigraph.policy.bundle import parse_bundle
from omnigraph.policy.cedar import AccessRequest, Policy
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.sdk.stored_queries import StoredQueries, check_stored
from omnigraph.server.jobs.queue import JobQueue
from omnigraph.server.runtime.admission import Admission
from omnigraph.server.runtime.config_broadcast import ConfigBroadcast
from omnigraph.server.runtime.configuration import Configuration, PolicyFile, read_configuration
from omnigraph.server.runtime.failed_logins import FailedLogins
from omnigraph.server.runtime.guard import AuthMode, Guard, find_auth_mode
from omnigraph.server.runtime.settings import (
    EMBEDDING,
    GRAPH_ID,
    RESERVED,
    Flags,
    GraphSettings,
    ServerSettings,
)
from omnigraph.server.runtime.tokens import Tokens
from omnigraph.server.telemetry import metrics
from omnigraph.server.telemetry.tracing import find_tracer

RETRY_MS: Final = 5_000
"""How long a worker waits before it tries a refused configuration again."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Opened:
    """An open graph and the settings it was opened with. The same URI under another id or with
    other settings is opened again, because its guard follows the policy of that id.
    """

    id: str
    uri: str
    settings: Settings
    graph: LocalGraph
    guard: Guard


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """One graph that this server serves."""

    id: str
    graph: LocalGraph
    guard: Guard
    queries: StoredQueries = field(default_factory=StoredQueries)


@dataclass(frozen=True, slots=True)
class ServerState:
    generation: int
    settings: ServerSettings
    auth_mode: AuthMode
    tokens: Tokens
    guard: Guard
    """The gate of the server itself: listing graphs."""
    has_server_policy: bool
    graphs: Mapping[str, ServedGraph]
    quarantined: Mapping[str, str]
    """Graphs that could not be opened, each with the reason."""
    policies: Mapping[str, Policy]
    """By graph; the guards take them when this state becomes current."""

    def find_graph(self, graph_id: str | None) -> ServedGraph:
        """A graph by its id; the only one if none is given. Raises GraphNotServed."""
        if graph_id is None:
            return next(iter(self.graphs.values()))
        if not GRAPH_ID.fullmatch(graph_id) or graph_id in RESERVED:
            raise RequestInvalid(f"{graph_id!r} cannot be the id of a graph")
        found = self.graphs.get(graph_id)
        if found is None:
            raise GraphNotServed(graph_id)
        return found

    def allows_listing(self, actor: str | None) -> bool:
        """May the actor list the graphs? Needs a policy for the server."""
        return self.has_server_policy and self.guard.allows(AccessRequest(actor, Action.GRAPH_LIST))

    def allows_admin(self, actor: str | None) -> bool:
        """May the actor reload the server? Administrators of any of its graphs may."""
        request = AccessRequest(actor, Action.ADMIN)
        return any(each.guard.allows(request) for each in self.graphs.values())


class ServerRuntime:
    """Holds the current `ServerState`, and builds the next one."""

    def __init__(
        self,
        flags: Flags,
        environment: Mapping[str, str],
        broadcast: ConfigBroadcast | None = None,
    ) -> None:
        """Take the configuration of the other workers; if there is none, read flags and files.

        Raises ConfigInvalid, UsageError, PolicyInvalid; and the errors of opening a graph, if every
        graph is required.
        """
        self._broadcast = broadcast
        self._flags = flags
        self._environment = environment
        self.tracer = find_tracer(environment)
        self._open: list[_Opened] = []
        self._lock = Lock()
        self._seen = 0
        # Built now: otherwise all of the first requests would build it at the same time.
        grammar()
        if broadcast is None or not broadcast.find_newest():
            self.current = self._read()
        else:
            self._seen, configuration = broadcast.read()
            self.current = self._build(self._seen, configuration)
        _put_rules_in_place(self.current)
        self._refused = (0, 0)
        """The number of the last configuration that was tried, and when."""
        self.admission = Admission(self.current.settings.limits)
        self._failed_logins = FailedLogins(self.current.settings.limits.failed_logins)
        self.jobs = JobQueue(REAL)

    def authenticate(self, state: ServerState, header: str | None, address: str) -> str | None:
        """The actor of a request. Raises Unauthorized, TooManyFailedLogins."""
        # In the open mode there are no actors, so a token has no meaning.
        if state.auth_mode is AuthMode.OPEN:
            return None
        return self._failed_logins.resolve(state.tokens.resolve, header, address)

    def share(self, broadcast: ConfigBroadcast) -> None:
        """Announce this configuration to workers that start from now on, and follow them."""
        with broadcast.alone():
            self._seen = broadcast.announce(self._configuration)
        self._broadcast = broadcast

    def reload(self) -> ServerState:
        """Read the whole configuration again, and announce it to the other workers.

        Raises as the constructor does; then nothing changes in any worker.
        """
        with self._lock:
            self._put_in_place(self._read())
            return self.current

    def try_reload(self) -> None:
        """Reload on a signal: a refused configuration is logged, not raised."""
        with _refusals_logged():
            self.reload()

    def follow(self) -> None:
        """Take over the configuration that another worker announced; retry after `RETRY_MS`."""
        broadcast = self._broadcast
        if broadcast is None:
            return
        with self._lock, _refusals_logged():
            newest = broadcast.find_newest()
            refused, refused_ms = self._refused
            is_early = newest == refused and REAL.monotonic_ms() - refused_ms < RETRY_MS
            if newest in (0, self._seen) or is_early:
                return
            self._refused = (newest, REAL.monotonic_ms())
            number, configuration = broadcast.read()
            self._put_in_place(self._build(number, configuration))
            self._seen = number

    def _put_in_place(self, state: ServerState) -> None:
        # From here on the new rules hold, also for requests under way.
        _put_rules_in_place(state)
        served_now = {id(each.graph) for each in state.graphs.values()}
        self._open = [each for each in self._open if id(each.graph) in served_now]
        self.current = state
        self.admission.limits = state.settings.limits
        self._failed_logins.failures_max = state.settings.limits.failed_logins
        logger.info("configuration %d is current", state.generation)

    def _read(self) -> ServerState:
        """Read flags and files; if they can be served, announce them to the other workers."""
        broadcast = self._broadcast
        with broadcast.alone() if broadcast is not None else nullcontext():
            configuration = read_configuration(self._flags, self._environment)
            state = self._build(self._seen + 1, configuration)
            if broadcast is None:
                self._seen += 1
            else:
                self._seen = broadcast.announce(configuration)
            self._configuration = configuration
        return replace(state, generation=self._seen)

    def _build(self, generation: int, configuration: Configuration) -> ServerState:
        settings, tokens = configuration.settings, configuration.tokens
        policies = {
            name: _parse_policy(file, graph_id=name)
            for name, file in configuration.policies.items()
        }
        server_policy = None
        if configuration.server_policy is not None:
            server_policy = _parse_policy(configuration.server_policy, graph_id=None)
        auth_mode = find_auth_mode(
            has_tokens=bool(tokens),
            has_policy=bool(policies) or server_policy is not None,
            unauthenticated=settings.unauthenticated,
        )
        graphs: dict[str, ServedGraph] = {}
        quarantined: dict[str, str] = {}
        for name, each in settings.graphs.items():
            try:
                opened = self._open_graph(
                    name, each, settings, Guard(auth_mode, policies.get(name))
                )
                stored = check_stored(
                    configuration.queries.get(name, ()), opened.graph.engine.active_schema().catalog
                )
                _log_quarantined(stored)
                graphs[name] = ServedGraph(name, opened.graph, opened.guard, stored)
            except OmnigraphError as error:
                is_of_file = isinstance(error, ConfigInvalid) and error.path != EMBEDDING
                if is_of_file or settings.require_all_graphs:
                    raise
                logger.warning("graph %s is quarantined: %s", name, error)
                quarantined[name] = str(error)
        if not graphs:
            reasons = "; ".join(quarantined.values())
            raise ConfigInvalid("server", reason=f"no graph can be opened: {reasons}")
        return ServerState(
            generation,
            settings,
            auth_mode,
            tokens,
            Guard(auth_mode, server_policy),
            server_policy is not None,
            graphs,
            quarantined,
            policies,
        )

    def _open_graph(
        self, name: str, settings: GraphSettings, server: ServerSettings, guard: Guard
    ) -> _Opened:
        """The open graph with its guard; the existing one if the settings are the same."""
        limits = server.limits
        embedding = None
        if settings.embedding is not None:
            embedding = settings.embedding.resolve(self._environment)
        options = Settings(
            storage_options=settings.resolve_options(),
            embedding=embedding,
            group=server.group,
            query_memory_bytes_max=limits.query_memory_bytes,
            query_cache_bytes_max=limits.query_cache_bytes,
            storage_cache_bytes_max=limits.storage_cache_bytes,
            meter=metrics.GraphMeter(name),
        )
        for each in self._open:
            if (each.id, each.uri, each.settings) == (name, settings.uri, options):
                return each
        graph = LocalGraph(
            open_graph(settings.uri, settings=options, gate=guard, find_rule=guard.find_rule)
        )
        self._open.append(_Opened(name, settings.uri, options, graph, guard))
        return self._open[-1]


def _put_rules_in_place(state: ServerState) -> None:
    for name, served in state.graphs.items():
        served.guard.replace(state.auth_mode, state.policies.get(name), served.queries)


@contextmanager
def _refusals_logged() -> Iterator[None]:
    """Log an error of a new configuration; the worker keeps the old one and goes on."""
    try:
        yield
    except OmnigraphError as error:
        logger.error("the new configuration was refused: %s", error)  # noqa: TRY400
    except Exception:
        logger.exception("the new configuration was refused")


def _log_quarantined(stored: StoredQueries) -> None:
    for broken in stored.broken:
        logger.warning("stored query %s is quarantined: %s", broken.source, broken.reason)
    for query in stored.queries.values():
        for warning in query.warnings:
            logger.warning("stored query %s: %s", query.name, warning)


def _parse_policy(file: PolicyFile, *, graph_id: str | None) -> Policy:
    """The policy of a graph, or of the server. Raises ConfigInvalid, PolicyInvalid."""
    bundle = parse_bundle(file.text, name=file.path)
    if bundle.rules and bundle.is_for_server is not (graph_id is None):
        subject = "the server" if graph_id is None else f"graph '{graph_id}'"
        raise ConfigInvalid(file.path, reason=f"its rules are not about {subject}")
    return Policy(bundle, name=file.path, graph_id=graph_id or "graph")
