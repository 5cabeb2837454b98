"""What a schema says that the reference, version 0.8, does not understand.

A graph with such a schema cannot be opened there. The reference refuses it twice over: its parser
rejects the text of the schema, and the canonical form has a version that it does not know.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog
from omnigraph.errors import UsageError


@dataclass(frozen=True, slots=True)
class SchemaExtension:
    """One use of the language beyond the reference."""

    entity: str
    """`edge:Knows`."""
    told: str

    def __str__(self) -> str:
        return f"{self.entity}: {self.told}"


def find_extensions(catalog: Catalog) -> tuple[SchemaExtension, ...]:
    """In the order of the catalog; empty for a schema that the reference understands."""
    return tuple(_extensions(catalog))


def describe_extensions(found: Sequence[SchemaExtension]) -> str:
    """A sentence for people."""
    return f"the reference 0.8 cannot open a graph with this schema: {'; '.join(map(str, found))}"


def check_portable(catalog: Catalog) -> None:
    """Raises UsageError."""
    if found := find_extensions(catalog):
        raise UsageError(f"not portable: {describe_extensions(found)}")


def _extensions(catalog: Catalog) -> Iterator[SchemaExtension]:
    for edge in catalog.edges:
        if edge.key:
            yield SchemaExtension(edge.table_key, f"@key({', '.join(edge.key)}) on an edge")
