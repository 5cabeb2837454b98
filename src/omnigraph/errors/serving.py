"""The server or its policy refused, or the server did not answer: ask for access, or ask again."""

from dataclasses import KW_ONLY

from omnigraph.errors.base import Code, OmnigraphError


class AccessError(OmnigraphError):
    """The request was refused or stopped. Nothing was changed."""


class Unauthorized(AccessError, PermissionError, code=Code.UNAUTHORIZED):
    """The request had no token, or one that the server does not know."""

    template = "{reason}"
    reason: str


class Forbidden(AccessError, PermissionError, code=Code.FORBIDDEN):
    """The policy does not permit this action to this actor."""

    template = "{_who} may not {action}{_where}"
    actor: str | None
    _: KW_ONLY
    action: str
    branch: str | None
    is_protected: bool = False
    """Is the branch changed by approved proposals only, whatever the actor may do elsewhere?"""

    @property
    def _who(self) -> str:
        return self.actor or "nobody"

    @property
    def _where(self) -> str:
        why = ", which only approved proposals change" if self.is_protected else ""
        return "" if self.branch is None else f" on branch {self.branch!r}{why}"


class QueryCancelled(AccessError, code=Code.QUERY_CANCELLED, retryable=True):
    template = "the read was cancelled: its caller went away, or the server stops"


class JobCancelled(AccessError, code=Code.JOB_CANCELLED):
    template = "job {job_id} was cancelled"
    job_id: str


class TooManyRequests(AccessError, code=Code.TOO_MANY_REQUESTS, retryable=True):
    template = "{actor} has more than {limit} under way; try again in {retry_after_s} s"
    actor: str
    _: KW_ONLY
    limit: str
    retry_after_s: int


class WriteQueueFull(AccessError, code=Code.WRITE_QUEUE_FULL, retryable=True):
    """More writes wait for a branch than its process accepts. Nothing of this write was done."""

    template = (
        "{waiting} writes wait for branch {branch!r} in this process, which is the limit; "
        "try again in {retry_after_s} s"
    )
    branch: str
    _: KW_ONLY
    waiting: int
    retry_after_s: int


class TooManyFailedLogins(AccessError, code=Code.TOO_MANY_FAILED_LOGINS, retryable=True):
    """Too many wrong tokens came from one address. The token of this request was not looked at."""

    template = "too many wrong tokens came from {address}; try again in {retry_after_s} s"
    address: str
    _: KW_ONLY
    retry_after_s: int


class CrossSite(AccessError, code=Code.CROSS_SITE):
    """A page of another site speaks through the browser of its visitor."""

    template = "the request comes from a page of another site: {header} is {value!r}, {expected}"
    header: str
    _: KW_ONLY
    value: str
    expected: str


class ServerFailure(OmnigraphError):
    """The server gave no usable answer. The same request with the same key runs only once."""


class ServerUnreachable(
    ServerFailure, ConnectionError, code=Code.SERVER_UNREACHABLE, retryable=True
):
    template = "no answer from {url}: {reason}"
    url: str
    _: KW_ONLY
    reason: str


class ServerAnswerInvalid(ServerFailure, code=Code.SERVER_ANSWER_INVALID):
    template = "{url} answered {status}: {reason}"
    url: str
    _: KW_ONLY
    status: int
    reason: str
