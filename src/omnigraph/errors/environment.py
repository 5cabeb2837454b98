"""The place, Spark or the embedding provider does not fit: an operator must act."""

from collections.abc import Sequence
from dataclasses import KW_ONLY

from omnigraph.errors.base import Code, OmnigraphError


class PlacementError(OmnigraphError):
    """The place that holds the graph does not fit. An operator must act."""


class ConditionalWritesIgnored(PlacementError, code=Code.CONDITIONAL_WRITES_IGNORED):
    """The store accepts conditional puts and ignores the condition: two writers would both win."""

    template = "the store at {uri!r} does not honour {condition}; it cannot hold a graph"
    uri: str
    _: KW_ONLY
    condition: str


class GraphRelocated(PlacementError, code=Code.GRAPH_RELOCATED):
    template = (
        "a branch kept at {actual!r} reads its inherited files from {recorded!r}: "
        "move the graph back, or export it there and load it here"
    )
    _: KW_ONLY
    recorded: str
    actual: str


class GraphIncomplete(PlacementError, code=Code.GRAPH_INCOMPLETE):
    template = (
        "{uri} holds the remains of an init that did not finish ({found}); "
        "`omnigraph init --force` clears them"
    )
    uri: str
    _: KW_ONLY
    found: Sequence[str]


class FormatTooNew(PlacementError, code=Code.FORMAT_TOO_NEW):
    template = (
        "branch {branch!r} has format {found}, newer than {supported}; upgrade omnigraph first"
    )
    branch: str
    _: KW_ONLY
    found: int
    supported: int


class FormatTooOld(PlacementError, code=Code.FORMAT_TOO_OLD):
    template = (
        "branch {branch!r} has format {found}, older than {supported}; "
        "step it forward with an older release first"
    )
    branch: str
    _: KW_ONLY
    found: int
    supported: int


class ExtraMissing(OmnigraphError, ImportError, code=Code.EXTRA_MISSING):
    """A part of OmniGraph that an extra brings was used without it."""

    template = "this needs {package}, which is not installed: pip install 'omnigraph[{extra}]'"
    package: str
    _: KW_ONLY
    extra: str


class PipelineError(OmnigraphError, retryable=True):
    """Bulk work could not run. Nothing was changed; an operator must act."""


class JavaMissing(PipelineError, code=Code.JAVA_MISSING):
    template = (
        "Spark needs Java 17 or 21, and there is none ({looked}): "
        "install openjdk-17-jre-headless, or set JAVA_HOME"
    )
    _: KW_ONLY
    looked: str


class SparkUnusable(PipelineError, code=Code.SPARK_UNUSABLE):
    """Spark did not start, or its workers cannot reach what they need."""

    template = "Spark cannot be used: {reason}"
    reason: str


class JobFailed(PipelineError, code=Code.JOB_FAILED):
    """A bulk job started and died. Nothing of it is visible."""

    template = "{job} failed: {reason}"
    job: str
    _: KW_ONLY
    reason: str


class EmbeddingError(OmnigraphError):
    """No vector could be made from a text. Nothing was changed."""


class EmbedderMissing(EmbeddingError, code=Code.EMBEDDER_MISSING):
    """No provider is configured, or the provider lacks a key."""

    template = "texts cannot be embedded with {provider}: {reason}"
    provider: str
    _: KW_ONLY
    reason: str


class EmbeddingModelMismatch(EmbeddingError, code=Code.EMBEDDING_MODEL_MISMATCH):
    """Vectors of two models cannot be compared."""

    template = (
        "the vectors are of the model {declared!r}, and {configured!r} is set up: "
        "set OMNIGRAPH_EMBED_MODEL, or give a vector"
    )
    _: KW_ONLY
    declared: str
    configured: str


class EmbeddingFailed(EmbeddingError, code=Code.EMBEDDING_FAILED):
    """The provider did not answer, or its vectors do not fit."""

    template = "{provider}, asked {_tries}, did not embed the text: {reason}"
    provider: str
    _: KW_ONLY
    reason: str
    attempts: int

    @property
    def _tries(self) -> str:
        return "once" if self.attempts == 1 else f"{self.attempts} times"
