"""Parsing YAML that users write. A repeated key is an error.

PyYAML by itself would keep only the last value of a repeated key, so half of a policy could vanish.
"""

from collections.abc import Hashable
from typing import Any

import yaml

from omnigraph.jsontext import NestedTooDeeply, check_nesting


class _Strict(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as it is overridden
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key.value}' is there twice", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> object:
    """Raises yaml.YAMLError."""
    try:
        found = yaml.load(text, _Strict)  # noqa: S506 - it is a safe one
        check_nesting(found)
    except (RecursionError, NestedTooDeeply):
        raise yaml.YAMLError(str(NestedTooDeeply())) from None
    return found
