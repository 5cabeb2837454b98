"""The place, Spark or the embedding provider does not fit: an operator must act."""

from collections.abc import Sequence
from dataclasses import KW_ONLY

from omnigraph.errors.base import Code, OmnigraphError


class PlacementError(OmnigraphError):
    """The place that holds the graph does not fit. An operator must act."""


class ConditionalWritesIgnored(PlacementError, code=Code.CONDITIONAL_WRITES_IGNORED):
    """The store accepts conditional puts and ignores the condition: two writers would both win."""

    template = (
        "the store at {uri!r} does not honour {condition}, so two writers could both win; it "
        "cannot hold a graph; use a store with conditional writes, such as Amazon S3, MinIO or R2"
    )
    uri: str
    _: KW_ONLY
    condition: str


class BucketUnreachable(PlacementError, code=Code.BUCKET_UNREACHABLE, retryable=True):
    """The endpoint of a bucket gave no usable answer."""

    template = "the bucket {bucket!r} cannot be reached at {endpoint}: {reason}; {remedy}"
    bucket: str
    _: KW_ONLY
    endpoint: str
    reason: str
    remedy: str


class BucketForbidden(PlacementError, code=Code.BUCKET_FORBIDDEN):
    """The store refuses the credentials, or finds none."""

    template = "access to the bucket {bucket!r} at {endpoint} is refused: {reason}; {remedy}"
    bucket: str
    _: KW_ONLY
    endpoint: str
    reason: str
    remedy: str


class GraphRelocated(PlacementError, code=Code.GRAPH_RELOCATED):
    """Files of the graph were moved here since it was opened, or belong to another graph."""

    template = (
        "a branch kept at {actual!r} records that its inherited files are at {recorded!r}: "
        "`omnigraph relocate` makes every branch read from here"
    )
    _: KW_ONLY
    recorded: str
    actual: str


class GraphIncomplete(PlacementError, code=Code.GRAPH_INCOMPLETE):
    template = "{uri} holds the remains of {_origin} that did not finish ({found}); {_remedy}"
    uri: str
    _: KW_ONLY
    found: Sequence[str]
    source: str | None = None
    """What was being cloned to this place."""

    @property
    def _origin(self) -> str:
        return "an init" if self.source is None else f"a clone of {self.source}"

    @property
    def _remedy(self) -> str:
        if self.source is None:
            return "`omnigraph init --force` clears them"
        return "repeat the clone, which continues it, or delete the place"


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


class HelperUnusable(OmnigraphError, code=Code.HELPER_UNUSABLE):
    """The helper process of `omnigraph up` did not start. Commands work without it."""

    template = "no helper can run here: {reason}"
    reason: str


class PipelineError(OmnigraphError, retryable=True):
    """Bulk work could not run. Nothing was changed; an operator must act."""


class SparkPackageMissing(PipelineError, code=Code.SPARK_PACKAGE_MISSING):
    """The session of Spark cannot read a format, because it lacks the package for it."""

    template = (
        "the Spark session cannot read '{format}': add {package} to it "
        "(spark.jars or spark.jars.packages, docs/spark.md)"
    )
    format: str
    _: KW_ONLY
    package: str


class JavaMissing(PipelineError, code=Code.JAVA_MISSING):
    template = (
        "Spark needs Java 17 or 21, and there is none ({looked}): "
        "install openjdk-17-jre-headless, set JAVA_HOME, or pip install 'omnigraph[java]'"
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
