"""Errors are declared by fields and a template; text, facts and code survive every journey."""

import copy
import inspect
import pickle
from typing import Any, get_origin

import pytest

from omnigraph import errors
from omnigraph.errors import (
    BranchInUse,
    ChangesRefused,
    Code,
    Contention,
    KeyConflict,
    MergeBaseUnavailable,
    OmnigraphError,
    QueryTimeout,
    TypeUnknown,
    UsageError,
)

SAMPLES: dict[str, object] = {"reason": "schema_boundary", "missing": "value"}


class Entry:
    """Any finding, violation, fault or conflict."""

    kind = message = "m"

    def render(self) -> str:
        return "rendered"


def sample(parameter: inspect.Parameter) -> object:
    if parameter.name in SAMPLES:
        return SAMPLES[parameter.name]
    if parameter.name == "mistakes":
        return [(1, "text")]
    if get_origin(parameter.annotation) is not None and "Sequence" in str(parameter.annotation):
        return ["a"] if "str" in str(parameter.annotation) else [Entry()]
    return 3 if parameter.annotation in (int, float, int | None) else "text"


def make(kind: type[OmnigraphError]) -> OmnigraphError:
    given: list[object] = []
    named: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = sample(parameter)
        else:
            given.append(sample(parameter))
    return kind(*given, **named)


def every_kind() -> list[type[OmnigraphError]]:
    found = [each for each in vars(errors).values() if isinstance(each, type)]
    return [each for each in found if issubclass(each, OmnigraphError) and "code" in vars(each)]


def test_a_template_names_fields_properties_and_lists() -> None:
    assert str(Contention("main", attempts=3)) == (
        "branch 'main' is busy: 3 attempts to publish were overtaken"
    )
    assert str(BranchInUse("a", users=["b", "c"])) == "branch 'a' is needed by: b, c"
    assert str(TypeUnknown("Perso", hint="did you mean Person?")) == (
        "there is no type 'Perso'; did you mean Person?"
    )
    unreadable = MergeBaseUnavailable("a", "b", bases=["1"], candidates=[])
    assert str(unreadable).endswith("older common commits: none")


def test_the_facts_are_fields_and_lists_are_tuples() -> None:
    conflict = KeyConflict("Person", ids=["a", "b"])
    assert vars(conflict) == {"type_name": "Person", "ids": ("a", "b"), "kind": "node"}
    assert (conflict.code, conflict.retryable) == (Code.KEY_CONFLICT, False)


def test_what_is_declared_after_kw_only_is_given_by_name() -> None:
    with pytest.raises(TypeError, match="too many positional"):
        Contention("main", 3)  # type: ignore[call-arg] # what is tested
    with pytest.raises(TypeError, match="missing a required"):
        Contention("main")  # type: ignore[call-arg] # what is tested
    with pytest.raises(TypeError, match="unexpected keyword"):
        QueryTimeout(3, limit=2)  # type: ignore[call-arg] # what is tested


def test_a_text_in_braces_is_not_taken_for_a_field() -> None:
    assert str(UsageError("{branch}")) == "{branch}"
    assert "{commit_id}" in str(ChangesRefused("parentless_commit", commit_id="{commit_id}"))


@pytest.mark.parametrize("kind", every_kind(), ids=lambda each: each.__name__)
def test_an_error_keeps_text_and_facts_when_it_is_pickled_or_copied(
    kind: type[OmnigraphError],
) -> None:
    error = make(kind)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert (str(twin), twin.args) == (str(error), error.args)
        assert vars(twin).keys() == vars(error).keys()


BUILTINS: list[tuple[type[OmnigraphError], type[Exception]]] = [
    (errors.InputError, ValueError),
    (errors.FileUnreadable, OSError),
    (errors.QueryTimeout, TimeoutError),
    (errors.NotFoundError, KeyError),
    (errors.GraphNotFound, FileNotFoundError),
    (errors.GraphExists, FileExistsError),
    (errors.Unauthorized, PermissionError),
    (errors.Forbidden, PermissionError),
    (errors.ServerUnreachable, ConnectionError),
    (errors.ExtraMissing, ImportError),
]


@pytest.mark.parametrize(("kind", "builtin"), BUILTINS)
def test_a_builtin_catches_what_a_python_user_expects_it_to(
    kind: type[OmnigraphError], builtin: type[Exception]
) -> None:
    assert issubclass(kind, builtin)
    for each in every_kind():
        if issubclass(each, kind):
            error = make(each)
            assert isinstance(error, builtin)
            assert str(error) == error.args[0], "no quotes of KeyError, no errno of OSError"


def test_no_other_error_has_a_builtin_parent() -> None:
    for each in every_kind():
        foreign = [parent for parent in each.__mro__ if parent.__module__ == "builtins"]
        expected = [builtin for kind, builtin in BUILTINS if issubclass(each, kind)]
        assert {base for builtin in expected for base in builtin.__mro__} | {
            *Exception.__mro__
        } == set(foreign)
