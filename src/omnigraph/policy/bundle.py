"""A policy in YAML to checked values. Every mistake raises `PolicyInvalid` with its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

import yaml

from omnigraph.errors import PolicyInvalid
from omnigraph.policy.actions import ON_BRANCH, ON_SERVER, ON_TARGET, Action
from omnigraph.yamltext import read_yaml


class BranchScope(StrEnum):
    """The branches to which a rule is restricted."""

    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """The actors of a group may perform these actions, on all branches or on some."""

    id: str
    group: str
    actions: tuple[Action, ...]
    branch_scope: BranchScope | None = None
    target_branch_scope: BranchScope | None = None


@dataclass(frozen=True, slots=True)
class Protection:
    """What a proposal needs before it may be merged into a branch (D39)."""

    approvals: int = 0
    checks: tuple[str, ...] = ()
    """Stored queries that must return no row of the merged graph."""
    author_may_approve: bool = False


@dataclass(frozen=True, slots=True)
class Bundle:
    groups: Mapping[str, tuple[str, ...]]
    protected_branches: frozenset[str]
    rules: tuple[PolicyRule, ...]
    protections: Mapping[str, Protection] = field(default_factory=dict)
    """By branch: those that only merged proposals change. The others only have the scope."""

    @property
    def actors(self) -> frozenset[str]:
        return frozenset(actor for members in self.groups.values() for actor in members)

    @property
    def is_for_server(self) -> bool:
        """Does the policy concern the server and not a graph?"""
        return any(set(rule.actions) & ON_SERVER for rule in self.rules)


def parse_bundle(text: str, *, name: str) -> Bundle:
    """`name` is the name of the policy in messages. Raises PolicyInvalid."""
    return _Reader(name).bundle(_load(text, name))


def _load(text: str, name: str) -> object:
    try:
        return read_yaml(text)
    except yaml.YAMLError as error:
        raise PolicyInvalid(name, reason=f"it is not YAML: {error}") from error


Member = TypeVar("Member", Action, BranchScope)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Decodes one document; messages carry its name."""

    name: str

    def bundle(self, document: object) -> Bundle:
        top = self.mapping(document, "the policy")
        self.check_keys(top, "the policy", {"version", "groups", "protected_branches", "rules"})
        if top.get("version") != 1:
            raise self.invalid(f"version must be 1, not {top.get('version')!r}")
        found = self.mapping(top.get("groups") or {}, "groups")
        groups = {self.text(key, "a group's name"): self.members(key, found[key]) for key in found}
        protected = self.sequence(top.get("protected_branches") or [], "protected_branches")
        rules = tuple(
            self.rule(each, f"rules[{at}]", groups)
            for at, each in enumerate(self.sequence(top.get("rules") or [], "rules"))
        )
        self.check_rules(rules)
        branches = [self.protected(each, at) for at, each in enumerate(protected)]
        names = [name for name, _ in branches]
        twice = next((each for each in names if names.count(each) > 1), None)
        if twice is not None:
            raise self.invalid(f"protected_branches names the branch '{twice}' twice")
        protections = {name: found for name, found in branches if found is not None}
        return Bundle(groups, frozenset(names), rules, protections)

    def protected(self, found: object, at: int) -> tuple[str, Protection | None]:
        """A branch, and what its proposals need; a bare name only gives the branch its scope."""
        if not isinstance(found, dict):
            return self.text(found, "a protected branch"), None
        where = f"protected_branches[{at}]"
        known = {"branch", "approvals", "checks", "author_may_approve"}
        self.check_keys(found, where, known)
        approvals, may = found.get("approvals", 0), found.get("author_may_approve", False)
        if type(approvals) is not int or approvals < 0:
            raise self.invalid(f"{where}.approvals must be a number, 0 or more, not {approvals!r}")
        if not isinstance(may, bool):
            raise self.invalid(f"{where}.author_may_approve must be true or false, not {may!r}")
        listed = self.sequence(found.get("checks") or [], f"{where}.checks")
        checks = tuple(self.text(each, f"{where}.checks") for each in listed)
        branch = self.text(found.get("branch"), f"{where}.branch")
        return branch, Protection(approvals, tuple(dict.fromkeys(checks)), may)

    def members(self, group: str, found: object) -> tuple[str, ...]:
        listed = self.sequence(found, f"groups.{group}")
        if not listed:
            raise self.invalid(f"groups.{group} has no members")
        return tuple(self.text(each, f"a member of groups.{group}") for each in listed)

    def rule(self, found: object, where: str, groups: Mapping[str, object]) -> PolicyRule:
        outer = self.mapping(found, where)
        self.check_keys(outer, where, {"id", "allow"})
        rule_id = self.text(outer.get("id"), f"{where}.id")
        allow = self.mapping(outer.get("allow"), f"{where}.allow")
        known = {"actors", "actions", "branch_scope", "target_branch_scope"}
        self.check_keys(allow, f"{where}.allow", known)
        actors = self.mapping(allow.get("actors"), f"{where}.allow.actors")
        self.check_keys(actors, f"{where}.allow.actors", {"group"})
        group = self.text(actors.get("group"), f"{where}.allow.actors.group")
        if group not in groups:
            raise self.invalid(f"rule '{rule_id}' names the group '{group}', which is not there")
        listed = self.sequence(allow.get("actions"), f"{where}.allow.actions")
        if not listed:
            raise self.invalid(f"rule '{rule_id}' allows no action")
        return PolicyRule(
            id=rule_id,
            group=group,
            actions=tuple(self.member(Action, each, f"{where}.allow.actions") for each in listed),
            branch_scope=self.scope(allow, "branch_scope", where),
            target_branch_scope=self.scope(allow, "target_branch_scope", where),
        )

    def scope(self, allow: Mapping[str, object], key: str, where: str) -> BranchScope | None:
        found = allow.get(key)
        return None if found is None else self.member(BranchScope, found, f"{where}.allow.{key}")

    def check_rules(self, rules: tuple[PolicyRule, ...]) -> None:
        seen: set[str] = set()
        for rule in rules:
            if rule.id in seen:
                raise self.invalid(f"there are two rules '{rule.id}'")
            seen.add(rule.id)
            if rule.branch_scope is not None and rule.target_branch_scope is not None:
                raise self.invalid(f"rule '{rule.id}' has two scopes; a rule has one at most")
            self.check_scope(rule, "branch_scope", rule.branch_scope, ON_BRANCH)
            self.check_scope(rule, "target_branch_scope", rule.target_branch_scope, ON_TARGET)
        on_server = {bool(ON_SERVER & {action}) for rule in rules for action in rule.actions}
        if len(on_server) > 1:
            raise self.invalid("rules about the server and rules about graphs need two policies")

    def check_scope(
        self, rule: PolicyRule, key: str, scope: BranchScope | None, fitting: frozenset[Action]
    ) -> None:
        unfit = [action for action in rule.actions if action not in fitting]
        if scope is not None and unfit:
            raise self.invalid(f"rule '{rule.id}': {key} means nothing to {', '.join(unfit)}")

    # reading

    def invalid(self, reason: str) -> PolicyInvalid:
        return PolicyInvalid(self.name, reason=reason)

    def mapping(self, found: object, where: str) -> Mapping[str, object]:
        if not isinstance(found, dict):
            raise self.invalid(f"{where} must be a mapping")
        return found

    def sequence(self, found: object, where: str) -> list[object]:
        if not isinstance(found, list):
            raise self.invalid(f"{where} must be a list")
        return found

    def text(self, found: object, where: str) -> str:
        if not isinstance(found, str) or not found.strip():
            raise self.invalid(f"{where} must be text that is not blank, not {found!r}")
        return found

    def member(self, kind: type[Member], found: object, where: str) -> Member:
        for each in kind:
            if each == found:
                return each
        raise self.invalid(f"{where}: {found!r} is none of {', '.join(kind)}")

    def check_keys(self, found: Mapping[str, object], where: str, known: set[str]) -> None:
        """Refuse unknown keys: a misspelt key would have no effect."""
        unknown = [key for key in found if key not in known]
        if unknown:
            raise self.invalid(f"{where} has the unknown key '{unknown[0]}'")
