"""Policies as people write them, and what they decide."""

import pytest

from omnigraph.errors import PolicyInvalid
from omnigraph.policy.actions import Action
from omnigraph.policy.bundle import Protection, parse_bundle
from omnigraph.policy.cases import find_mismatches, parse_cases
from omnigraph.policy.cedar import AccessRequest, Policy

TEAM = """
version: 1
groups:
  admins: [dana]
  writers: [ci, "le\\"e"]
protected_branches: [main]
rules:
  - id: team-read
    allow: { actors: { group: writers }, actions: [read, export], branch_scope: any }
  - id: writers-unprotected
    allow: { actors: { group: writers }, actions: [change], branch_scope: unprotected }
  - id: admins-change
    allow: { actors: { group: admins }, actions: [change], branch_scope: protected }
  - id: admins-merge
    allow: { actors: { group: admins }, actions: [branch_merge], target_branch_scope: any }
  - id: create
    allow:
      actors: { group: writers }
      actions: [branch_create]
      target_branch_scope: unprotected
  - id: a-also-read
    allow: { actors: { group: writers }, actions: [read] }
"""


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Policy(parse_bundle(TEAM, name="team.yaml"), name="team.yaml")


@pytest.mark.parametrize(
    ("actor", "action", "branch", "target", "expected"),
    [
        ("ci", Action.READ, "main", None, True),
        ("ci", Action.READ, None, None, True),
        ('le"e', Action.READ, "main", None, True),
        ("ci", Action.CHANGE, "review", None, True),
        ("ci", Action.CHANGE, "main", None, False),
        ("ci", Action.CHANGE, None, None, False),
        ("dana", Action.CHANGE, "main", None, True),
        ("dana", Action.CHANGE, "review", None, False),
        ("dana", Action.READ, "main", None, False),
        ("dana", Action.BRANCH_MERGE, "review", "main", True),
        ("ci", Action.BRANCH_MERGE, "review", "main", False),
        ("ci", Action.BRANCH_CREATE, "main", "review", True),
        ("ci", Action.BRANCH_CREATE, "review", "main", False),
        ("ci", Action.INVOKE_QUERY, None, None, False),
        ("eve", Action.READ, "main", None, False),
        (None, Action.READ, "main", None, False),
        ("writers", Action.READ, "main", None, False),
    ],
)
def test_a_rule_allows_its_group_its_actions_on_its_branches_and_nothing_else(
    policy: Policy,
    *,
    actor: str | None,
    action: Action,
    branch: str | None,
    target: str | None,
    expected: bool,
) -> None:
    assert policy.decide(AccessRequest(actor, action, branch, target)).allowed is expected


def test_the_rule_that_is_told_is_the_first_by_name(policy: Policy) -> None:
    assert policy.decide(AccessRequest("ci", Action.READ, "main")).rule == "a-also-read"


RULE = "rules: [{ id: r, allow: { actors: { group: g }, actions: [read] } }]"
RULES = f"version: 1\ngroups: {{ g: [a] }}\n{RULE}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 2", "version must be 1"),
        ("[", "not YAML"),
        ("version: 1\nrule: []", "unknown key 'rule'"),
        ("version: 1\nrules: []\nrules: []", "'rules' is there twice"),
        ("version: 1\ngroups: { g: [] }", "no members"),
        ("version: 1\ngroups: { g: [' '] }", "not blank"),
        (f"version: 1\n{RULE}", "group 'g', which is not there"),
        (RULES.replace("read", "fly"), "'fly' is none of"),
        (RULES.replace("[read]", "[]"), "allows no action"),
        (
            RULES.replace("actions: [read]", "actions: [read, schema_apply], branch_scope: any"),
            "branch_scope means nothing to schema_apply",
        ),
        (RULES.replace("actions: [read]", "actions: [read, graph_list]"), "need two policies"),
        (
            RULES.replace(
                "actions: [read]", "actions: [read], branch_scope: any, target_branch_scope: any"
            ),
            "one at most",
        ),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(PolicyInvalid, match=reason):
        parse_bundle(text, name="p.yaml")


def test_two_rules_of_one_name_are_refused() -> None:
    one = "{ id: r, allow: { actors: { group: g }, actions: [read] } }"
    with pytest.raises(PolicyInvalid, match="two rules 'r'"):
        parse_bundle(f"version: 1\ngroups: {{ g: [a] }}\nrules: [{one}, {one}]", name="p")


def test_cases_that_the_policy_decides_otherwise_are_found(policy: Policy) -> None:
    cases = parse_cases(
        "version: 1\ncases:\n"
        "- { id: right, actor: ci, action: change, branch: review, expect: allow }\n"
        "- { id: wrong, actor: ci, action: change, branch: main, expect: allow }\n"
        "- { id: dashed, actor: dana, action: branch-merge, target_branch: main, expect: deny }\n",
        name="cases.yaml",
    )
    assert [each.id for each in find_mismatches(policy, cases)] == ["wrong", "dashed"]


def test_a_protected_branch_may_say_what_its_proposals_need() -> None:
    text = (
        "version: 1\nprotected_branches:\n  - release\n"
        "  - { branch: main, approvals: 2, checks: [a, b, a], author_may_approve: true }\n"
    )
    bundle = parse_bundle(text, name="p")
    assert bundle.protected_branches == {"release", "main"}
    assert bundle.protections == {"main": Protection(2, ("a", "b"), author_may_approve=True)}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("{ approvals: 1 }", "branch must be text"),
        ("{ branch: main, approvals: -1 }", "0 or more"),
        ("{ branch: main, approvals: true }", "0 or more"),
        ("{ branch: main, author_may_approve: 1 }", "true or false"),
        ("{ branch: main, checks: a }", "must be a list"),
        ("{ branch: main, aprovals: 1 }", "unknown key 'aprovals'"),
        ("main\n  - { branch: main }", "twice"),
    ],
)
def test_a_wrong_protection_is_refused_with_its_place(entry: str, reason: str) -> None:
    with pytest.raises(PolicyInvalid, match=reason):
        parse_bundle(f"version: 1\nprotected_branches:\n  - {entry}\n", name="p")
