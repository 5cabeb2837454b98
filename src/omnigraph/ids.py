"""The small names everything else is addressed by."""

from typing import Literal, NewType

TypeKind = Literal["node", "edge"]

TableKey = NewType("TableKey", str)
"""`node:Person` or `edge:Knows`: one table of a graph."""


def table_key(kind: TypeKind, name: str) -> TableKey:
    return TableKey(f"{kind}:{name}")
