"""The schema a graph is bound to: read, compiled, and checked against its recorded hash."""

from dataclasses import dataclass

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import decode_ir, encode_pretty, schema_hash
from omnigraph.catalog.model import Catalog
from omnigraph.commit.schema_files import FoundSchema, SchemaFiles
from omnigraph.errors import SchemaFilesInvalid
from omnigraph.lang.source import Source
from omnigraph.storage.layout import SCHEMA_IR, SCHEMA_SOURCE


@dataclass(frozen=True, slots=True)
class Contract:
    """A schema that is in force."""

    source: str
    catalog: Catalog
    schema_hash: str

    def files(self) -> SchemaFiles:
        return SchemaFiles(self.source, encode_pretty(self.catalog), self.schema_hash)


def compile_contract(source: str, *, name: str) -> Contract:
    """The contract a schema text would make. Raises SchemaInvalid."""
    catalog = compile_schema(Source(name, source))
    return Contract(source, catalog, schema_hash(catalog))


def check_contract(found: FoundSchema) -> Contract:
    """The contract a graph's files hold.

    Comments and layout of the source may have been edited by hand; what it says may not. Raises
    SchemaFilesInvalid, SchemaInvalid, SchemaCorrupt.
    """
    contract = compile_contract(found.source, name=SCHEMA_SOURCE)
    if found.ir is None or found.schema_hash is None:
        return contract
    if schema_hash(decode_ir(found.ir)) != found.schema_hash:
        raise SchemaFilesInvalid(SCHEMA_IR, reason="it is not what its recorded hash was made of")
    if contract.schema_hash != found.schema_hash:
        raise SchemaFilesInvalid(
            SCHEMA_SOURCE,
            reason="it says something else than the schema in force; put the old text back, "
            "or change the schema with `omnigraph schema apply`",
        )
    return contract
