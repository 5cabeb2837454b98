"""Deciding by a policy, with Cedar.

A bundle becomes one Cedar policy for each rule and action, called `rule:action`. All text is parsed
when the policy is compiled; a decision costs a fraction of a millisecond.

1. An actor that is in no group is refused before Cedar is called.
2. Conditions use flags only: whether the request has a branch, and whether it is protected.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, assert_never

from omnigraph.errors import PolicyInvalid
from omnigraph.extras import require
from omnigraph.policy.actions import ON_SERVER, Action
from omnigraph.policy.bundle import BranchScope, Bundle, PolicyRule

require("cedarpy", extra="server")

import cedarpy  # noqa: E402 - the error above names the extra

NAMESPACE: Final = "Omnigraph"
SERVER_ROOT: Final = "root"

Json = dict[str, Any]
"""Documents in the JSON format of Cedar."""

_CONTEXT: Final[Json] = {
    "type": "Record",
    "attributes": {
        "has_branch": {"type": "Boolean"},
        "branch": {"type": "String"},
        "has_target_branch": {"type": "Boolean"},
        "target_branch": {"type": "String"},
        "branch_is_protected": {"type": "Boolean"},
        "target_branch_is_protected": {"type": "Boolean"},
    },
}


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """May this actor perform this action, on this branch or into this target branch?"""

    actor: str | None
    action: Action
    branch: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class AccessDecision:
    allowed: bool
    rule: str | None
    """The rule that allows the request; the first by name if there are several."""
    message: str


class Policy:
    """A compiled bundle. Safe to share among threads."""

    def __init__(self, bundle: Bundle, *, name: str, graph_id: str = "graph") -> None:
        """Raises PolicyInvalid."""
        self.bundle = bundle
        self.name = name
        self._graph_id = graph_id
        self._actors = bundle.actors
        document = json.dumps(_policies(bundle))
        try:
            _validate(document, name)
            self._policies = cedarpy.PolicySet.from_json_str(document)
            self._schema = cedarpy.Schema.from_json_str(json.dumps(_schema()))
            self._entities = cedarpy.Entities.from_json_str(
                json.dumps(_entities(bundle, graph_id)), self._schema
            )
        except PolicyInvalid:
            raise
        except ValueError as error:
            raise PolicyInvalid(name, reason=str(error)) from error

    def decide(self, question: AccessRequest) -> AccessDecision:
        if question.actor is None or question.actor not in self._actors:
            return AccessDecision(
                False, None, f"{question.actor or 'nobody'} is in no group"
            )  # (1)
        result = cedarpy.is_authorized(
            {
                "principal": _uid("Actor", question.actor),
                "action": _uid("Action", question.action),
                "resource": self._resource(question.action),
                "context": self._context(question),
            },
            self._policies,
            self._entities,
            self._schema,
        )
        if result.decision is not cedarpy.Decision.Allow:
            return AccessDecision(False, None, "no rule allows it")
        rule = min(each.rpartition(":")[0] for each in result.diagnostics.reasons)
        return AccessDecision(True, rule, f"allowed by rule '{rule}'")

    def _resource(self, action: Action) -> Json:
        if action in ON_SERVER:
            return _uid("Server", SERVER_ROOT)
        return _uid("Graph", self._graph_id)

    def _context(self, question: AccessRequest) -> Json:
        protected = self.bundle.protected_branches
        return {
            "has_branch": question.branch is not None,
            "branch": question.branch or "",
            "has_target_branch": question.target is not None,
            "target_branch": question.target or "",
            "branch_is_protected": question.branch in protected,
            "target_branch_is_protected": question.target in protected,
        }


# ── Cedar's documents ────────────────────────────────────────────────────────────────────────────


def _uid(kind: str, name: str) -> Json:
    return {"type": f"{NAMESPACE}::{kind}", "id": name}


def _schema() -> Json:
    actions = {
        action.value: {
            "appliesTo": {
                "principalTypes": ["Actor"],
                "resourceTypes": ["Server" if action in ON_SERVER else "Graph"],
                "context": _CONTEXT,
            }
        }
        for action in Action
    }
    types: Json = {"Group": {}, "Actor": {"memberOfTypes": ["Group"]}, "Graph": {}, "Server": {}}
    return {NAMESPACE: {"entityTypes": types, "actions": actions}}


def _entities(bundle: Bundle, graph_id: str) -> list[Json]:
    groups = {
        actor: [_uid("Group", name) for name, members in bundle.groups.items() if actor in members]
        for actor in sorted(bundle.actors)
    }
    plain = [_uid("Group", name) for name in bundle.groups]
    plain += [_uid("Graph", graph_id), _uid("Server", SERVER_ROOT)]
    return [
        *({"uid": uid, "attrs": {}, "parents": []} for uid in plain),
        *(
            {"uid": _uid("Actor", actor), "attrs": {}, "parents": parents}
            for actor, parents in groups.items()
        ),
    ]


def _policies(bundle: Bundle) -> Json:
    static = {
        f"{rule.id}:{action.value}": _permit(rule, action)
        for rule in bundle.rules
        for action in rule.actions
    }
    return {"staticPolicies": static, "templates": {}, "templateLinks": []}


def _permit(rule: PolicyRule, action: Action) -> Json:
    resource = "Server" if action in ON_SERVER else "Graph"
    return {
        "effect": "permit",
        "principal": {"op": "in", "entity": _uid("Group", rule.group)},
        "action": {"op": "==", "entity": _uid("Action", action)},
        "resource": {"op": "is", "entity_type": f"{NAMESPACE}::{resource}"},
        "conditions": [{"kind": "when", "body": body} for body in _conditions(rule)],
    }


def _conditions(rule: PolicyRule) -> Iterator[Json]:
    for scope, prefix in ((rule.branch_scope, ""), (rule.target_branch_scope, "target_")):
        has, is_protected = _context_flags(prefix)
        match scope:
            case None | BranchScope.ANY:
                continue
            case BranchScope.PROTECTED:
                yield {"&&": {"left": has, "right": is_protected}}
            case BranchScope.UNPROTECTED:
                yield {"&&": {"left": has, "right": {"!": {"arg": is_protected}}}}
            case _:
                assert_never(scope)


def _context_flags(prefix: str) -> tuple[Json, Json]:
    def flag(name: str) -> Json:
        return {".": {"left": {"Var": "context"}, "attr": name}}

    return flag(f"has_{prefix}branch"), flag(f"{prefix}branch_is_protected")


def _validate(document: str, name: str) -> None:
    """Raises PolicyInvalid if Cedar's validation of the policies fails."""
    text = cedarpy.policies_from_json_str(document)
    found = cedarpy.validate_policies(text, json.dumps(_schema()))
    if not found.validation_passed:
        raise PolicyInvalid(name, reason="; ".join(str(each) for each in found.errors))
