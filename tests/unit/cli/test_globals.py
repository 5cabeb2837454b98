"""Flags that may stand anywhere in a command line."""

import pytest

from omnigraph.cli.globals import FLAGS, ErrorFormat, Globals, split_globals
from omnigraph.cli.terminal import ColorChoice
from omnigraph.errors import UsageError


@pytest.mark.parametrize(
    "arguments",
    [
        ["--store", "g", "lint", "--json"],
        ["lint", "--store", "g", "--json"],
        ["lint", "--json", "--store", "g"],
        ["lint", "--json", "--store=g"],
    ],
)
def test_a_flag_means_the_same_before_and_after_the_command(arguments: list[str]) -> None:
    assert split_globals(arguments) == (Globals(store="g"), ["lint", "--json"])


def test_every_flag_is_understood() -> None:
    values = {"--color": "never"}
    arguments = [
        part
        for flag in FLAGS
        for part in ([flag.flag, values.get(flag.flag, "json")] if flag.takes else [flag.flag])
    ]
    found, rest = split_globals(arguments)
    assert rest == []
    assert found == Globals(
        store="json",
        server="json",
        cluster="json",
        graph="json",
        profile="json",
        actor="json",
        yes=True,
        quiet=True,
        errors=ErrorFormat.JSON,
        uri="json",
        storage_options=("json",),
        color=ColorChoice.NEVER,
        no_pager=True,
    )


def test_nothing_after_two_dashes_is_touched() -> None:
    found, rest = split_globals(["--quiet", "x", "--", "--yes"])
    assert (found, rest) == (Globals(quiet=True), ["x", "--", "--yes"])


def test_an_unknown_flag_is_left_to_the_command() -> None:
    assert split_globals(["--storey", "g"]) == (Globals(), ["--storey", "g"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lint", "--store"], "--store needs a value: --store URI"),
        (["--yes=1"], "--yes takes no value"),
        (["--errors", "xml"], "text or json, not 'xml'"),
        (["--color", "red"], "auto or always or never, not 'red'"),
    ],
)
def test_a_flag_used_wrongly_says_how_it_is_used(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        split_globals(arguments)
