"""JSON and YAML from outside are read down to a depth at which nothing runs out of stack."""

import itertools
import json

import pytest
import yaml

from omnigraph.jsontext import NESTING_MAX, NestedTooDeeply, read_json
from omnigraph.yamltext import read_yaml


def nested(depth: int, inner: str = "") -> str:
    return "[" * depth + inner + "]" * depth


@pytest.mark.parametrize("inner", ["", "1", '"["'])
def test_the_limit_is_exact(inner: str) -> None:
    assert json.dumps(read_json(nested(NESTING_MAX, inner))) == nested(NESTING_MAX, inner)
    with pytest.raises(NestedTooDeeply, match="more than 100 levels"):
        read_json(nested(NESTING_MAX + 1, inner))


@pytest.mark.parametrize("depth", [900, 3_000, 1_000_000])
def test_whatever_the_depth_it_is_the_same_error(depth: int) -> None:
    with pytest.raises(NestedTooDeeply):
        read_json(nested(depth))
    with pytest.raises(NestedTooDeeply):
        read_json('{"a":' * depth + "1" + "}" * depth)
    with pytest.raises(NestedTooDeeply):
        read_json(nested(depth).encode())


def test_many_brackets_beside_each_other_are_no_nesting() -> None:
    rows = [{"a": [index, "]]}"]} for index in range(1_000)]
    assert read_json(json.dumps(rows)) == rows
    assert read_json(json.dumps(rows).encode()) == rows
    assert read_json('"' + "[" * 1_000 + '"') == "[" * 1_000


def test_what_hooks_make_counts_too() -> None:
    with pytest.raises(NestedTooDeeply):
        read_json('{"a":' * 101 + "1" + "}" * 101, object_pairs_hook=list)


def test_text_that_is_no_json_is_told_as_ever() -> None:
    with pytest.raises(json.JSONDecodeError):
        read_json("[" * 150)
    with pytest.raises(UnicodeDecodeError):
        read_json(b'"\xff"')


@pytest.mark.parametrize(
    "text",
    [
        nested(101),
        nested(100_000),
        "&a [*a]",  # contains itself
        "\n".join(f"{'  ' * depth}a:" for depth in range(102)) + " {}",
    ],
)
def test_yaml_has_the_same_limit(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="nested more than 100 levels"):
        read_yaml(text)


def test_yaml_in_which_one_value_stands_in_many_places_takes_no_time() -> None:
    names = [f"n{index}" for index in range(60)]
    lines = [f"{names[0]}: &{names[0]} [x]"]
    lines += [
        f"{name}: &{name} [*{before}, *{before}]" for before, name in itertools.pairwise(names)
    ]
    assert isinstance(read_yaml("\n".join(lines)), dict)
