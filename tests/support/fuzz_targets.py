"""What a stranger may send, file or forge: each target takes bytes and calls one reader.

Only declared errors may come out: those of `omnigraph.errors`, and where a surface documents
others, those. Anything else is a finding. `tests/unit/support/test_fuzz_corpus.py` runs each target
over its corpus; `python -m support.fuzzing` looks for new inputs.
"""

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Final

import pyarrow as pa
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import decode_ir, schema_hash
from omnigraph.catalog.model import Catalog
from omnigraph.commit.compat.old_sidecar import decode_old_sidecar
from omnigraph.commit.leases.lease import decode_lease
from omnigraph.commit.manifest.document import load_document
from omnigraph.commit.manifest.model import SCHEMA as MANIFEST_ROWS, read_manifest
from omnigraph.commit.recovery.sidecar import decode_sidecar
from omnigraph.compiler.compile import CompiledQuery, compile_file
from omnigraph.compiler.parameters import IntegerEncoding, bind
from omnigraph.engine.history.feed import decode_position
from omnigraph.engine.merge.conflicts import decode_resolutions
from omnigraph.engine.proposals.proposal import decode_proposal
from omnigraph.errors import OmnigraphError
from omnigraph.ids import MAIN, BranchName, Version, parse_branch
from omnigraph.jsontext import read_json
from omnigraph.lang.source import Source
from omnigraph.mcp.paging import CURSOR, read_cursor
from omnigraph.pipeline.recipes.recipe import read_recipe
from omnigraph.pipeline.sources.delimited import parse_cells
from omnigraph.pipeline.sources.mappings import ColumnMapping
from omnigraph.pipeline.sources.parse import parse_block
from omnigraph.pipeline.sources.splits import Cells
from omnigraph.policy.bundle import parse_bundle
from omnigraph.policy.cases import parse_cases
from omnigraph.policy.cedar import Policy
from omnigraph.server.jobs.record import decode_job
from omnigraph.server.request_context import parse_json
from omnigraph.wire import requests

SCHEMA: Final = """
interface Named { name: String }
node Person implements Named {
  name: String @key  age: I32?  score: F64?  born: Date?  seen: DateTime?
  tags: [String]?  vec: Vector(3)?  photo: Blob?  active: Bool?  big: U64?
  bio: String?  kind: enum(a, b)?
  @range(age, 0..150)  @check(bio, "^[a-z ]*$")
}
node Team { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge In: Person -> Team
"""

PARAMETERS: Final = """
query q(
  $s: String?, $i: I32?, $l: I64?, $u: U64?, $f: F32?, $d: F64?, $b: Bool?, $day: Date?,
  $at: DateTime?, $v: Vector(3)?, $ts: [String]?, $is: [I64]?, $p: Blob?
) { match { $x: Person { age: $i } } return { $x.name } }
"""


@cache
def catalog() -> Catalog:
    return compile_schema(Source("schema.pg", SCHEMA))


@cache
def _declared() -> CompiledQuery:
    (found,) = compile_file(Source("q.gq", PARAMETERS), catalog())
    return found


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# ── languages ────────────────────────────────────────────────────────────────────────────────────


def read_query(data: bytes) -> None:
    compile_file(Source("q.gq", _text(data)), catalog())


def read_schema(data: bytes) -> None:
    schema_hash(compile_schema(Source("schema.pg", _text(data))))


def read_params(data: bytes) -> None:
    try:
        given = read_json(data)
    except ValueError:
        return
    for mode in IntegerEncoding:
        with suppress(OmnigraphError):
            bind(_declared().parameters, given, mode)


# ── files of a graph ─────────────────────────────────────────────────────────────────────────────


def read_sidecar(data: bytes) -> None:
    document = load_document(data, file="__recovery/x.json")
    with suppress(OmnigraphError):
        decode_sidecar(document)
    for version in (1, 2):
        with suppress(OmnigraphError):
            decode_old_sidecar(document, version)


def read_manifest_rows(data: bytes) -> None:
    """Rows of `__manifest`, one JSON object a line."""
    try:
        rows = pa.Table.from_pylist([read_json(each) for each in data.splitlines()], MANIFEST_ROWS)
        rows.validate(full=True)
    except (ValueError, TypeError, AttributeError, OverflowError, pa.ArrowException):
        return  # the table format keeps no such rows
    required = (each.name for each in MANIFEST_ROWS if not each.nullable)
    if any(rows[each].null_count for each in required):
        return
    manifest = read_manifest(rows, branch=MAIN, version=Version(3))
    _ = manifest.pins, manifest.head, manifest.log.schema_hash
    for commit in (*manifest.log.commits, *manifest.log.ancestors):
        commit.encode()


def read_objects(data: bytes) -> None:
    """The small objects beside the tables, and the files of people that hold JSON."""
    readers: tuple[Callable[[], object], ...] = (
        lambda: decode_lease(data, key="__leases/x.json"),
        lambda: decode_proposal(data, "__proposals/x.json"),
        lambda: decode_ir(_text(data)),
        lambda: decode_resolutions(_text(data)),
    )
    for each in readers:
        with suppress(OmnigraphError):
            each()
    with suppress(ValueError, KeyError, TypeError):  # its caller turns these into ObjectCorrupt
        decode_job(data)


# ── bulk ─────────────────────────────────────────────────────────────────────────────────────────


def read_records(data: bytes) -> None:
    parse_block(catalog(), data)


def read_csv(data: bytes) -> None:
    """The first byte says how cells are written; the rest are cells of people."""
    names = ("name", "age", "score", "born", "seen", "tags", "active", "big", "photo", "vec")
    (person,) = (each for each in catalog().nodes if each.name == "Person")
    mapping = ColumnMapping(person, {each: each for each in names}, are_texts=True)
    how, body = data[:1] or b",", data[1:]
    content = Cells(
        mapping,
        names,
        {b";": ";", b"\t": "\t"}.get(how, ","),
        "NULL" if how == b"N" else "",
        0,
        is_quoted=how != b"q",
    )
    parse_cells(content, body)


def read_pipeline(data: bytes) -> None:
    path = Path(gettempdir()) / f"omnigraph-fuzz-{hashlib.sha256(data).hexdigest()[:16]}.yaml"
    path.write_bytes(data)
    try:
        read_recipe(path)
    finally:
        path.unlink()


# ── the server ───────────────────────────────────────────────────────────────────────────────────

BODIES: Final[tuple[type[BaseModel], ...]] = (
    requests.QueryBody,
    requests.ExplainBody,
    requests.MutateBody,
    requests.TransactionBody,
    requests.InvokeBody,
    requests.RowsBody,
    requests.RowsDeleteBody,
    requests.LoadBody,
    requests.ExportBody,
    requests.BaselineBody,
    requests.SchemaPlanBody,
    requests.SchemaApplyBody,
    requests.BranchCreateBody,
    requests.ConflictsBody,
    requests.MergeBody,
)


def read_body(data: bytes) -> None:
    """What the server answers 400 or 422 is no finding."""
    try:
        document = parse_json(data)
    except (json.JSONDecodeError, HTTPException):
        return
    for each in BODIES:
        with suppress(ValidationError, OmnigraphError):
            each.model_validate(document)


def read_cursors(data: bytes) -> None:
    text = _text(data)
    forged = urlsafe_b64encode(hashlib.sha256(data).digest()[:6] + data).decode().rstrip("=")
    for each in (text, forged):
        with suppress(OmnigraphError):
            position = decode_position(each)
            # What its fields are compared with and looked up by.
            _ = hash((position.graph, position.branch, position.incarnation, position.where))
            _ = position.told + 1, {position.commit}, position.branch.upper()
    for each in (text, urlsafe_b64encode(data).decode().rstrip("=")):
        with suppress(OmnigraphError):
            read_cursor({CURSOR: each})
    with suppress(OmnigraphError):
        branch: BranchName = parse_branch(text)
        assert "\x00" not in branch
        assert ".." not in branch.split("/")


def read_policy(data: bytes) -> None:
    text = _text(data)
    with suppress(OmnigraphError):
        parse_cases(text, name="cases.yaml")
    Policy(parse_bundle(text, name="policy.yaml"), name="policy.yaml")


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "query": read_query,
    "schema": read_schema,
    "params": read_params,
    "sidecar": read_sidecar,
    "manifest": read_manifest_rows,
    "object": read_objects,
    "records": read_records,
    "csv": read_csv,
    "pipeline": read_pipeline,
    "body": read_body,
    "cursor": read_cursors,
    "policy": read_policy,
}


def run(name: str, data: bytes) -> None:
    """Raises what the target must not raise."""
    with suppress(OmnigraphError):
        TARGETS[name](data)
