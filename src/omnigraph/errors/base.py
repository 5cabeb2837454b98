"""How an error is declared: a code, a template, and its facts as annotated fields.

::

    class Contention(ConflictError, code=Code.CONTENTION, retryable=True):
        template = "branch {branch!r} is busy: {attempts} attempts to publish were overtaken"
        branch: str
        _: KW_ONLY
        attempts: int

The fields are the parameters of the constructor, as in a dataclass. A template may name fields and
properties; a list in it reads as its items with commas between them. A class whose text needs more
than a template overrides `_message`. An error survives `pickle` and `copy`: text and facts travel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from enum import StrEnum
from inspect import Parameter, Signature
from typing import Any, ClassVar, Self, dataclass_transform, get_origin

Code = StrEnum(
    "Code",
    "SCHEMA_INVALID QUERY_INVALID QUERY_NOT_FOUND PARAMETER_INVALID MIGRATION_UNSUPPORTED USAGE "
    "FILE_UNREADABLE STORE_URI_INVALID STORE_KEY_INVALID OBJECT_NOT_FOUND TABLE_NOT_FOUND "
    "VERSION_NOT_FOUND FORK_NOT_FOUND OBJECT_EXISTS OBJECT_CHANGED FORK_EXISTS FORK_IN_USE "
    "CONDITIONAL_WRITES_IGNORED GRAPH_RELOCATED STORAGE_FAILURE REPLY_LOST TABLE_CORRUPT "
    "BRANCH_NAME_INVALID MANIFEST_CORRUPT EXPECTED_VERSION_MISMATCH CONTENTION COMMIT_NOT_FOUND "
    "OUTCOME_UNKNOWN UPDATE_REFUSED SCHEMA_CORRUPT KEY_INVALID FENCED FORMAT_TOO_NEW "
    "FORMAT_TOO_OLD SCHEMA_FILES_INVALID SCHEMA_LOCKED GRAPH_EXISTS GRAPH_INCOMPLETE "
    "GRAPH_NOT_FOUND TABLE_UNKNOWN OPENED_READ_ONLY CONFIG_INVALID NOT_CONFIRMED "
    "BRANCH_NOT_FOUND BRANCH_EXISTS BRANCH_IN_USE LEASE_HELD LEASE_LOST LEASE_CORRUPT "
    "NOT_A_MUTATION TYPE_UNKNOWN CONSTRAINT_VIOLATION HEAD_MOVED KEY_CONFLICT SIDECAR_CORRUPT "
    "SIDECAR_TOO_NEW INVARIANT_VIOLATED DRIFT_FOUND OPERATION_NOT_FOUND LOAD_REJECTED "
    "JAVA_MISSING SPARK_UNUSABLE JOB_FAILED RECIPE_INVALID FORBIDDEN NOT_EXPORTABLE "
    "EMBEDDER_MISSING EMBEDDING_MODEL_MISMATCH EMBEDDING_FAILED POLICY_INVALID REQUEST_INVALID "
    "KEY_REUSED GRAPH_NOT_SERVED STORED_QUERY_NOT_FOUND JOB_NOT_FOUND ALREADY_DONE UNAUTHORIZED "
    "TOO_MANY_REQUESTS SERVER_UNREACHABLE JOB_CANCELLED SERVER_ANSWER_INVALID MERGE_CONFLICTS "
    "MERGE_BASE_UNAVAILABLE RESOLUTIONS_INVALID CURSOR_INVALID CHANGES_REFUSED CHANGE_FEED_GAP "
    "NOT_A_READ QUERY_MEMORY_EXCEEDED NOTHING_YET SCHEMA_CHANGED BRANCHES_EXIST SCHEMA_OUTDATED "
    "BACKFILL_INVALID RECOVERY_PENDING NOT_A_BLOB BLOB_RANGE_INVALID BLOB_NOT_FOUND "
    "EXTERNAL_BLOB BLOB_CHANGED MISADDRESSED OBJECT_CORRUPT QUERY_TIMEOUT QUERY_CANCELLED "
    "EXTRA_MISSING GRAPH_CLOSED TAG_EXISTS TAG_NOT_FOUND BUCKET_UNREACHABLE BUCKET_FORBIDDEN "
    "BUCKET_NOT_FOUND WRITE_QUEUE_FULL HELPER_UNUSABLE CLONE_RUNNING PROPOSAL_NOT_FOUND "
    "PROPOSAL_NOT_OPEN PROPOSAL_BLOCKED SPARK_PACKAGE_MISSING TOO_MANY_FAILED_LOGINS "
    "CROSS_SITE PATH_WEIGHT_INVALID",
)
"""Stable names of causes; the value of a code is its name in lower case. Append, never rename."""


class _Shown:
    """What a template can name: the attributes of an error."""

    def __init__(self, error: "OmnigraphError") -> None:
        self._error = error

    def __getitem__(self, name: str) -> object:
        value = getattr(self._error, name)
        return ", ".join(value) or "none" if isinstance(value, tuple) else value


@dataclass_transform(eq_default=False)
class OmnigraphError(Exception):
    """The root. Catch it to catch every error that OmniGraph raises on purpose."""

    code: ClassVar[Code]
    retryable: ClassVar[bool] = False
    """May the very same request succeed later?"""
    template: ClassVar[str]
    __signature__: ClassVar[Signature] = Signature()

    def __init_subclass__(cls, code: Code | None = None, *, retryable: bool | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code
        if retryable is not None:
            cls.retryable = retryable
        cls.__signature__ = _extend(cls.__signature__, vars(cls))

    def __init__(self, *given: object, **named: object) -> None:
        bound = self.__signature__.bind(*given, **named)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            is_list = get_origin(self.__signature__.parameters[name].annotation) is Sequence
            setattr(self, name, tuple(value) if is_list else value)
        super().__init__(self._message())

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would put the text in quotes

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[str, dict[str, Any]]]:
        return type(self).restore, (str(self), vars(self))

    @classmethod
    def restore(cls, message: str, facts: Mapping[str, object]) -> Self:
        """The error that was raised elsewhere, with the text and the facts it had there."""
        # Python refuses to make an OSError by the `__new__` of another exception.
        maker: type[Exception] = next(each for each in (OSError, Exception) if each in cls.__mro__)
        error = maker.__new__(cls)
        Exception.__init__(error, message)
        vars(error).update(facts)
        return error

    def _message(self) -> str:
        return self.template.format_map(_Shown(self))


def _extend(inherited: Signature, namespace: Mapping[str, Any]) -> Signature:
    """The parameters of a parent, and those that the annotations of a class add."""
    parameters, is_keyword = dict(inherited.parameters), False
    for name, hint in namespace.get("__annotations__", {}).items():
        if hint is KW_ONLY:
            is_keyword = True
        else:
            kind = Parameter.KEYWORD_ONLY if is_keyword else Parameter.POSITIONAL_OR_KEYWORD
            default = namespace.get(name, Parameter.empty)
            parameters[name] = Parameter(name, kind, default=default, annotation=hint)
    return Signature(sorted(parameters.values(), key=lambda each: each.kind))


def first_of(items: Sequence[str], count: int, *, glue: str, total: int | None = None) -> str:
    """The first `count` items, and how many of the `total` are left out."""
    rest = (len(items) if total is None else total) - len(items[:count])
    return glue.join([*items[:count], *([f"and {rest} more"] if rest > 0 else [])])


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `2 rows`; `plural` is for nouns that take more than an s."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"
