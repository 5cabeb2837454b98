"""A Spark that died: noticed, reported in one line, and forgotten, so that another can start.

1. The libraries of Spark keep a session whose Java process died, and call it again for ever. So
   `find_session` first checks whether the known session is alive.
2. A client of a Connect server would retry for ten minutes. Ours retries only as long as the
   address accepts connections.
3. The libraries of Spark report a death in pages on standard error. Our errors say all of it.
"""

import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

from py4j.protocol import Py4JError  # type: ignore[import-untyped] # it ships no types
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from omnigraph.effects import REAL

if TYPE_CHECKING:
    from pyspark.sql.connect.client.retries import RetryPolicy
    from pyspark.sql.connect.session import SparkSession as Remote

SPARK_ERRORS: Final[tuple[type[Exception], ...]] = (PySparkException, Py4JError, ConnectionError)
"""What Spark raises when a job, or Spark itself, does not work."""
_UNREACHED: Final[tuple[type[Exception], ...]] = (*SPARK_ERRORS, OSError)

GONE: Final = "Spark is gone; the next job starts or reaches another"

_REACH_SECONDS_MAX: Final = 10
_PATIENCE_MS: Final = 3_000
"""How long a Connect server may be away without being lost."""
_STEP_MS: Final = 200


def is_lost() -> bool:
    """(1) Is there a session in this process whose Spark died?"""
    if is_remote():
        return any(not _answers(each) for each in _remote_sessions())
    context = SparkContext._active_spark_context  # noqa: SLF001 - nothing else tells
    return context is not None and not _is_alive(context)


def _is_alive(context: SparkContext) -> bool:
    if _has_ended(SparkContext._gateway):  # noqa: SLF001 - whose child it is
        return False
    try:
        return not context._jsc.sc().isStopped()  # noqa: SLF001 - nothing else tells
    except SPARK_ERRORS:
        return False


def _has_ended(gateway: Any) -> bool:
    """Only the gateway of a machine that we started knows its process."""
    process = getattr(gateway, "proc", None)
    return process is not None and process.poll() is not None


def _answers(session: "Remote") -> bool:
    """Another server may have taken the place of ours, and that one does not know the session."""
    builder: Any = session.client._builder  # noqa: SLF001 - nothing else tells
    host, _, port = builder.endpoint.rpartition(":")
    try:
        reach(host, int(port))
        session.conf.get("spark.sql.session.timeZone")
    except _UNREACHED:
        return False
    return True


def reach(host: str, port: int) -> None:
    """Connect once. Raises OSError."""
    socket.create_connection((host, port), timeout=_REACH_SECONDS_MAX).close()


def _remote_sessions() -> list["Remote"]:
    from pyspark.sql.connect.session import SparkSession as Remote  # noqa: PLC0415 - needs grpc

    default = Remote._default_session  # noqa: SLF001 - nothing else tells
    known = [each for each in (Remote.getActiveSession(), default) if each is not None]
    return [each for at, each in enumerate(known) if each not in known[:at]]


def forget() -> None:
    """(1) Forget the session of this process, without a call to the Spark that died."""
    if is_remote():
        for session in _remote_sessions():
            session.release_session_on_close = False
            with suppress(*_UNREACHED):
                session.stop()
        return
    context = SparkContext._active_spark_context  # noqa: SLF001 - as above
    if context is not None:
        context._jsc = None  # noqa: SLF001 - else it would be asked to stop
        context.stop()
        SparkSession._instantiatedSession = None  # noqa: SLF001
        SparkSession._activeSession = None  # noqa: SLF001
    forget_gateway()


def forget_gateway() -> None:
    """Let the next session have a Java machine of its own, if this one's is gone."""
    if _has_ended(SparkContext._gateway):  # noqa: SLF001 - Spark itself never does
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


# ── (2) a server that does not answer any more ───────────────────────────────────────────────────


def give_up_in_time(session: SparkSession, host: str, port: int) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - needs grpc

    class WhilePortListens(DefaultPolicy):
        is_lost = False

        def can_retry(self, e: BaseException) -> bool:
            if self.is_lost or not super().can_retry(e):
                return False
            self.is_lost = not _listens(host, port)
            return not self.is_lost

    policies: list[RetryPolicy] = [WhilePortListens()]
    cast("Remote", session).client.set_retry_policies(policies)


def _listens(host: str, port: int) -> bool:
    until_ms = REAL.monotonic_ms() + _PATIENCE_MS
    while True:
        try:
            reach(host, port)
        except OSError:
            if REAL.monotonic_ms() > until_ms:
                return False
            REAL.sleep_ms(_STEP_MS)
        else:
            return True


# ── (3) noise ────────────────────────────────────────────────────────────────────────────────────


class _WithoutGateway(logging.Filter):
    """py4j logs to the root logger what it also raises."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.module != "java_gateway"


_without_gateway: Final = _WithoutGateway()


def hush(context: SparkContext) -> None:
    logging.getLogger().addFilter(_without_gateway)  # once, however often it is added
    server: Any = context._accumulatorServer  # noqa: SLF001 - it prints the end of its connection
    server.handle_error = _say_nothing


def _say_nothing(request: object, address: object) -> None:
    del request, address
