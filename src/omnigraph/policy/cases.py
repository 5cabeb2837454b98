"""Tests of a policy: decisions that its author expects."""

from dataclasses import dataclass

import yaml

from omnigraph.errors import PolicyInvalid
from omnigraph.policy.actions import Action
from omnigraph.policy.cedar import AccessRequest, Policy
from omnigraph.yamltext import read_yaml

_KEYS = frozenset({"id", "actor", "action", "branch", "target_branch", "expect"})


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    question: AccessRequest
    expect: bool


def parse_cases(text: str, *, name: str) -> tuple[Case, ...]:
    """Raises PolicyInvalid."""
    try:
        document = read_yaml(text)
    except yaml.YAMLError as error:
        raise PolicyInvalid(name, reason=f"it is not YAML: {error}") from error
    if not isinstance(document, dict) or document.get("version") != 1:
        raise PolicyInvalid(name, reason="version must be 1")
    cases = document.get("cases")
    if not isinstance(cases, list) or not cases:
        raise PolicyInvalid(name, reason="it needs a list of cases")
    return tuple(_case(each, at, name) for at, each in enumerate(cases))


def _case(found: object, at: int, name: str) -> Case:
    if not isinstance(found, dict) or not set(found) <= _KEYS:
        known = ", ".join(sorted(_KEYS))
        raise PolicyInvalid(name, reason=f"cases[{at}] must be a mapping of {known}")
    texts = {key: found.get(key) for key in sorted(_KEYS)}
    for key, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise PolicyInvalid(name, reason=f"cases[{at}].{key} must be text")
    if texts["expect"] not in ("allow", "deny"):
        raise PolicyInvalid(name, reason=f"cases[{at}].expect is allow or deny")
    action = parse_action(texts["action"] or "", name=name, where=f"cases[{at}].action")
    return Case(
        id=texts["id"] or f"cases[{at}]",
        question=AccessRequest(texts["actor"], action, texts["branch"], texts["target_branch"]),
        expect=texts["expect"] == "allow",
    )


def parse_action(text: str, *, name: str, where: str) -> Action:
    """An action as users type it, with dashes or underscores. Raises PolicyInvalid."""
    try:
        return Action(text.replace("-", "_"))
    except ValueError:
        known = ", ".join(Action)
        raise PolicyInvalid(name, reason=f"{where}: '{text}' is none of {known}") from None


def find_mismatches(policy: Policy, cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """The cases for which the decision is not the expected one."""
    return tuple(each for each in cases if policy.decide(each.question).allowed != each.expect)
