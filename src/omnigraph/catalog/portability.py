"""What a schema says that the reference, version 0.8, does not understand.

A graph with such a schema cannot be opened there: the canonical form has a version that the
reference does not know, and another content than the reference makes of the text. The text with a
key of edges its parser rejects as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType, spell_ends
from omnigraph.catalog.names import ID, ID_PROPERTY, spell_all
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
    for interface in catalog.interfaces:
        yield from _named_id(f"interface:{interface.name}", interface)
    for node in catalog.nodes:
        yield from _named_id(node.table_key, node)
    for name in catalog.edge_names:
        pairs = catalog.edges_named(name)
        entity = table_key("edge", name)
        yield from _named_id(entity, pairs[0])
        if pairs[0].is_pair:
            yield SchemaExtension(entity, f"ends of several types, {spell_ends(pairs)}")
        if pairs[0].key:
            yield SchemaExtension(entity, f"@key({spell_all(pairs[0].key)}) on an edge")


def _named_id(entity: str, owner: InterfaceType | NodeType | EdgeType) -> Iterator[SchemaExtension]:
    if any(each.name == ID_PROPERTY for each in owner.properties):
        yield SchemaExtension(entity, f"a property called {ID}")
