"""What a description of routes cannot tell: which programs, types and rows there are in one graph.

Loaded by schemathesis. Requests that are meant to be right get the texts that only this graph can
judge; everything else about them stays as it was drawn. Requests that are meant to be wrong stay
as they are.
"""

import os
from typing import Any, Final

import schemathesis
from schemathesis.generation import GenerationMode

from omnigraph.ids import BRANCH_NAME_MAX, spell

SCHEMA: Final = os.environ["OMNIGRAPH_API_SCHEMA"]
READ: Final = "query q() { match { $p: Person } return { $p.name } }"
CHANGE: Final = 'query q() { insert Person { name: "Cy" } }'

PROGRAMS: Final = {"query": READ, "read": READ, "explain": READ}

BODY: Final[dict[str, Any]] = {
    "branch": "b",
    "from": "main",
    "source": "b",
    "target": "main",
    "delete_branch": False,
    "mainline": None,
    "type": "Person",
    "type_names": ["Person"],
    "table_keys": ["node:Person"],
    "rows": [{"name": "Di"}],
    "schema_source": SCHEMA,
    "backfill": None,
    "resolutions": None,
    "query_name": None,
    "params": None,
    "timeout": 30,
}
"""What a body says of these, if it says anything."""

LOADS: Final = ("load", "ingest", "load/ndjson", "load/files")
"""A load starts Spark, which has tests of its own. One into a branch that is not there is refused
before that; up to there it is read and judged like any other."""

QUERY: Final[dict[str, Any]] = {"start": "beginning", "from": "main", "to": "b"}

EXCLUDED: Final = ("cursor", "page_token", "commit", "snapshot", "version", "at")
"""That parameters of an address exclude each other can be told in words only."""


@schemathesis.serializer("application/x-ndjson")
def spell_lines(context: Any, value: Any) -> bytes:  # noqa: ARG001 - their protocol
    return str(value).encode()


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:  # noqa: ARG001 - their protocol
    route = case.operation.path.removeprefix("/graphs/{graph_id}/")
    if route in LOADS:
        _pin_load(case)
    elif case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
        _pin(route, case)


def _is_free(branch: str) -> bool:
    """Is it not pinned, and not too long? What each character counts for is told in words."""
    return branch != "b" and len(spell(branch)) <= BRANCH_NAME_MAX


def _pin_load(case: Any) -> None:
    """Into a branch that is not there, and that is not made, whatever else is wrong with it."""
    nowhere = {"branch": "nowhere"}
    if isinstance(case.body, dict) and "data" in case.body:
        case.body = {**case.body, **nowhere, "from": None, "from_": None}
    case.query = {**(case.query or {}), **nowhere}
    case.query.pop("from", None)


def _pin_step(step: dict[str, Any]) -> dict[str, Any]:
    pinned = {"type": "Person", "rows": [{"name": "Di"}], "query": CHANGE}
    texts = {name: value for name, value in pinned.items() if name in step}
    return {**step, **texts, "name": None, "params": None}


def _pin(route: str, case: Any) -> None:
    if route == "branches/{branch}" and not _is_free(case.path_parameters["branch"]):
        case.path_parameters = {**case.path_parameters, "branch": "another"}
    is_naming = route in ("branches", "tags") and case.method == "POST"
    if is_naming and not _is_free(case.body["name"]):
        case.body = {**case.body, "name": "another"}
    if isinstance(case.body, dict):
        pinned = {name: value for name, value in BODY.items() if case.body.get(name) is not None}
        if "query" in case.body:
            pinned |= {"query": PROGRAMS.get(route, CHANGE), "name": None}
        if isinstance(case.body.get("on_conflict"), dict):
            pinned["on_conflict"] = {"Person": "ours"}
        if "steps" in case.body:
            pinned["steps"] = [_pin_step(each) for each in case.body["steps"]]
        case.body = {**case.body, **pinned}
    if case.query:
        given = {name: each for name, each in case.query.items() if name not in EXCLUDED}
        case.query = {name: QUERY.get(name, each) for name, each in given.items()}
    if route == "changes":
        case.query = {**(case.query or {}), "start": "beginning"}
