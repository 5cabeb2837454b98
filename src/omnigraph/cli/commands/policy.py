"""`omnigraph policy`: check a policy before a server uses it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.exits import Exit
from omnigraph.cli.inputs import read_source
from omnigraph.cli.options import Json
from omnigraph.cli.render import print_json, print_line
from omnigraph.errors.base import counted

if TYPE_CHECKING:
    from omnigraph.policy.cedar import Policy

app = typer.Typer(help="Check policies.", no_args_is_help=True)

File = Annotated[Path, typer.Option("--file", help="The policy, a YAML file.")]


@app.command()
def validate(*, file: File, as_json: Json = False) -> None:
    """Check whether a policy is valid."""
    policy = _read(file)
    actors = len(policy.bundle.actors)
    if as_json:
        rules = len(policy.bundle.rules)
        print_json({"ok": True, "policy": policy.name, "actors": actors, "rules": rules})
    else:
        print_line(f"policy valid: bundle '{policy.name}' [{counted(actors, 'actor')}]")


@app.command("test")
def run_cases(
    *,
    file: File,
    tests: Annotated[Path, typer.Option(help="The cases, a YAML file.")],
    as_json: Json = False,
) -> None:
    """Compare the decisions of a policy with the expected ones. Exits with 1 if they differ."""
    from omnigraph.policy.cases import find_mismatches, parse_cases

    policy = _read(file)
    cases = parse_cases(read_source(tests).text, name=str(tests))
    wrong = find_mismatches(policy, cases)
    if as_json:
        print_json({"ok": not wrong, "cases": len(cases), "failed": [each.id for each in wrong]})
    elif not wrong:
        print_line(f"policy tests passed: {counted(len(cases), 'case')}")
    else:
        for each in wrong:
            decided = "denied" if each.expect else "allowed"
            print_line(f"FAILED {each.id}: {each.question.action} is {decided}")
    if wrong:
        raise typer.Exit(Exit.FAILED)


@app.command()
def explain(
    *,
    file: File,
    actor: Annotated[str, typer.Option(help="The actor.")],
    action: Annotated[str, typer.Option(help="The action, e.g. change or branch_merge.")],
    branch: Annotated[str | None, typer.Option(help="The branch that is read or changed.")] = None,
    target_branch: Annotated[
        str | None, typer.Option(help="The branch that is created, merged into or deleted.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the decision of a policy about one request, and the rule behind it."""
    from omnigraph.policy.cases import parse_action
    from omnigraph.policy.cedar import AccessRequest

    policy = _read(file)
    requested = parse_action(action, name="--action", where="action")
    decision = policy.decide(AccessRequest(actor, requested, branch, target_branch))
    document = {
        "decision": "allow" if decision.allowed else "deny",
        "actor": actor,
        "action": requested.value,
        "branch": branch,
        "target_branch": target_branch,
        "matched_rule": decision.rule,
        "message": decision.message,
    }
    if as_json:
        print_json(document)
    else:
        for key, value in document.items():
            print_line(f"{key}: {'-' if value is None else value}")


def _read(file: Path) -> "Policy":
    from omnigraph.policy.bundle import parse_bundle
    from omnigraph.policy.cedar import Policy

    return Policy(parse_bundle(read_source(file).text, name=str(file)), name=str(file))
