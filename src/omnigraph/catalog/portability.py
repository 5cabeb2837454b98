"""What a schema says that the reference, version 0.8, does not understand.

A graph with such a schema cannot be opened there. The reference refuses it twice over: its parser
rejects the text of the schema, and the canonical form has a version that it does not know.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog, spell_ends
from omnigraph.errors import UsageError
from omnigraph.ids import table_key


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
    for name in catalog.edge_names:
        pairs = catalog.edges_named(name)
        entity = table_key("edge", name)
        if pairs[0].is_pair:
            yield SchemaExtension(entity, f"ends of several types, {spell_ends(pairs)}")
        if pairs[0].key:
            yield SchemaExtension(entity, f"@key({', '.join(pairs[0].key)}) on an edge")
