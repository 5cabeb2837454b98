"""Every path of a store, spelled once.

*Keys* address objects and tables relative to the root of a graph, and are the same on every
backend. The names that Lance gives to files inside a table are repeated here, because flushing, the
probe for a newer version and the removal of an incomplete branch need them. Guard tests compare
them with the files that Lance writes.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from omnigraph.errors import StoreUriInvalid
from omnigraph.ids import TypeKind, spell

# --- the root -------------------------------------------------------------------------------

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
MEMORY_URI: Final = "memory://"


@dataclass(frozen=True, slots=True)
class Root:
    """The place of a graph. `uri` has no trailing slash and, if local, is an absolute path.

    Lance writes the path that it was given into every branch. A relative path would name another
    place after a change of the working directory (D16).
    """

    uri: str
    is_local: bool

    def locate(self, key: str) -> str:
        """The full address of `key`, as Lance expects it."""
        return f"{self.uri.rstrip('/')}/{key}"


def relative(path: str, root: str) -> str:
    """The path below the root, in whichever way Lance spells the root."""
    above = root.rstrip("/") + "/"
    tail = path if path.startswith(above) else "/" + path.lstrip("/")
    return tail.removeprefix(above).rstrip("/")


def parse_root(text: str) -> Root:
    """Parse a root as users write it: a path, a `file://` path, or `s3://bucket/prefix`.

    Raises:
        StoreUriInvalid: nothing was given, or another kind of store is meant.

    """
    if not text.strip():
        raise StoreUriInvalid(text, reason="it is empty")
    match _SCHEME.match(text):
        case None:
            return _local_root(text)
        case found if found[1] == "file":
            return _local_root(text.removeprefix("file://"))
        case found if found[1] == "s3":
            return _bucket_root(text)
        case found if found[1].lower() in ("s3a", "s3n", "s3"):
            raise StoreUriInvalid(text, reason="write s3://")
        case found:
            raise StoreUriInvalid(
                text,
                reason=f"'{found[1]}' stores are not supported; a graph lives at a local path, "
                "or at s3:// (Amazon S3 and stores that speak its protocol, such as MinIO and R2)",
            )


def _local_root(path: str) -> Root:
    if not path:
        raise StoreUriInvalid("file://", reason="it names no path")
    return Root(os.path.abspath(path), is_local=True)  # noqa: PTH100 - the result is text for Lance


def _bucket_root(uri: str) -> Root:
    trimmed = uri.rstrip("/")
    if trimmed == "s3:":
        raise StoreUriInvalid(uri, reason="it names no bucket")
    return Root(trimmed, is_local=False)


# --- objects --------------------------------------------------------------------------------

SCHEMA_SOURCE: Final = "_schema.pg"
SCHEMA_IR: Final = "_schema.ir.json"
SCHEMA_STATE: Final = "__schema_state.json"
SCHEMA_LOCK_OWNER: Final = "__schema_lock.json"
"""Names the owner of the branch that locks the schema during a schema change."""

RECOVERY: Final = "__recovery"
FENCE_SUFFIX: Final = ".fence"
LEASES: Final = "__leases"
STAGING: Final = "__staging"
SCHEMAS: Final = "__schemas"
JOBS: Final = "__jobs"
PROMISES: Final = "__promises"
GROUPS: Final = "__groups"
TAGS: Final = "__tags"
PROPOSALS: Final = "__proposals"
MAPPED: Final = "__mapped"
CLOCK: Final = "__clock"
PROBE: Final = "__probe"
LEASE_NAME_MAX: Final = 230
"""A file name has at most 255 characters, and the endings of a lease and its tickets take 25."""

IDENTITY: Final = "__identity.json"
"""The id of the graph, and the place that its branches record."""
CLONE_CLAIM: Final = "__clone.json"
"""Names the clone that writes here; only while it runs, or after it died."""


def staged_schema_key(schema_file: str) -> str:
    """The next content of one of the three schema files, before its promotion."""
    return f"{schema_file}.staging"


def past_schema_key(schema_hash: str) -> str:
    """A former schema, kept for reads of the commits that were made under it."""
    return f"{SCHEMAS}/{spell(schema_hash)}.pg"


def sidecar_key(operation_id: str) -> str:
    return f"{RECOVERY}/{operation_id}.json"


def fence_key(operation_id: str) -> str:
    """In the folder of the sidecars, but no sidecar: other programs read only `.json` files."""
    return f"{RECOVERY}/{operation_id}{FENCE_SUFFIX}"


def lease_key(table: str, branch: str | None) -> str:
    return f"{LEASES}/{_lease_name(table, branch)}.json"


def _lease_name(table: str, branch: str | None) -> str:
    """The long name of a table is cut and hashed; a name that was cut stays as it is."""
    shown = spell(branch or "main")
    whole = f"{spell(table)}@{shown}"
    if len(whole) <= LEASE_NAME_MAX:
        return whole
    digest = hashlib.sha256(table.encode()).hexdigest()[:32]
    return f"{spell(f'{table[:40]}~{digest}')}@{shown}"


def parse_lease_key(key: str) -> tuple[str, str] | None:
    """The table, perhaps cut, and the branch of a lease; None for other objects, as tickets."""
    name = key.removeprefix(f"{LEASES}/")
    table, at, branch = name.removesuffix(".json").partition("@")
    if "/" in name or not at or not name.endswith(".json"):
        return None
    return unquote(table), unquote(branch)


def lease_line_prefix(table: str, branch: str | None) -> str:
    """The tickets of the operations that wait for a lease."""
    return f"{LEASES}/{_lease_name(table, branch)}.line"


def staging_record_key(operation_id: str) -> str:
    return f"{STAGING}/{operation_id}.json"


def scratch_prefix(name: str) -> str:
    """The place of a scratch table, which no manifest names."""
    return f"{STAGING}/{name}.scratch"


def group_key(group_id: str) -> str:
    """What the writes of a group touched, if their commit rows do not hold it."""
    return f"{GROUPS}/{group_id}.json"


def group_of(key: str) -> str:
    """The group that such a file belongs to."""
    return key.removeprefix(f"{GROUPS}/").removesuffix(".json")


def job_key(job_id: str) -> str:
    return f"{JOBS}/{job_id}.json"


def promise_key(owner: str) -> str:
    """The record of an idempotency key whose operation leaves no commit."""
    return f"{PROMISES}/{owner}.json"


def tag_key(name: str) -> str:
    """The tag of a commit."""
    return f"{TAGS}/{spell(name)}.json"


def proposal_key(proposal_id: str) -> str:
    return f"{PROPOSALS}/{spell(proposal_id)}.json"


# --- tables ---------------------------------------------------------------------------------

MANIFEST: Final = "__manifest"
LEGACY_COMMITS: Final = "_graph_commits.lance"
LEGACY_ACTORS: Final = "_graph_commit_actors.lance"
LEGACY_RUNS: Final = ("_graph_runs.lance", "_graph_run_actors.lance")
"""Older programs wrote these; no program reads them."""
RECOVERY_AUDIT: Final = "_graph_commit_recoveries.lance"

_FNV_BASIS: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_WORD: Final = 2**64


def fnv1a64(text: str) -> str:
    """The 64-bit FNV-1a hash of UTF-8 text, as 16 lower-case hex digits."""
    digest = _FNV_BASIS
    for byte in text.encode():
        digest = (digest ^ byte) * _FNV_PRIME % _WORD
    return f"{digest:016x}"


TYPE_FOLDERS: Final = ("nodes", "edges")
"""The folders of the tables of types."""


def table_path(kind: TypeKind, type_name: str) -> str:
    """The table of one type. The path does not change while the type keeps its name."""
    return f"{kind}s/{fnv1a64(type_name)}"


# --- inside a table, as Lance spells it -----------------------------------------------------

DATA: Final = "data"
VERSIONS: Final = "_versions"
TRANSACTIONS: Final = "_transactions"
DELETIONS: Final = "_deletions"
INDICES: Final = "_indices"
BRANCH_REFS: Final = "_refs/branches"
BRANCH_TREE: Final = "tree"

TABLE_FOLDERS: Final = (VERSIONS, TRANSACTIONS, DATA, DELETIONS, INDICES)
"""The folders of a table besides its refs and branches. Versions are first: without them the other
files are unreachable, so a removal that is interrupted leaves debris and never half a table."""


def branch_folder(branch: str | None) -> str:
    """The folder of a branch, relative to its table; empty for main. Slashes nest."""
    return f"{BRANCH_TREE}/{branch}" if branch is not None else ""


def branch_ref_file(branch: str) -> str:
    return f"{BRANCH_REFS}/{spell(branch)}.json"


def branch_of_ref_file(name: str) -> str | None:
    """The branch of a file in the refs folder; None for any other file."""
    return unquote(name.removesuffix(".json")) if name.endswith(".json") else None


def find_base_folder(recorded: str, path: str) -> str | None:
    """What a recorded place of inherited files is, below its table: empty for the table itself,
    `/tree/{branch}` for a branch of it; None if the place is not of a table with this path.

    The first match counts: the name of a branch may contain the path of a table.
    """
    mark = f"/{path}"
    at = recorded.find(mark)
    while at >= 0:
        rest = recorded[at + len(mark) :].rstrip("/")
        if not rest or rest.startswith(f"/{BRANCH_TREE}/"):
            return rest
        at = recorded.find(mark, at + 1)
    return None


_VERSION_DIGITS: Final = 20


def version_file(version: int) -> str:
    """Lance numbers its version files downwards, so that the newest sorts first."""
    return f"{VERSIONS}/{_WORD - 1 - version:020}.manifest"


def version_of_file(name: str) -> int | None:
    """The version of a version file by its name; None for any other file."""
    number, _, suffix = name.partition(".")
    if suffix != "manifest" or len(number) != _VERSION_DIGITS or not number.isdecimal():
        return None
    return _WORD - 1 - int(number)


def detached_file(version: int) -> str:
    """A version outside the history of its table."""
    return f"{VERSIONS}/d{version}.manifest"


VERSION_HINT: Final = f"{VERSIONS}/latest_version_hint.json"
"""Lance's hint at the newest version of a local table."""


def transaction_file(read_version: int, uuid: str) -> str:
    return f"{TRANSACTIONS}/{read_version}-{uuid}.txn"


def data_file(name: str) -> str:
    return f"{DATA}/{name}"


def blob_folder(data_file_name: str) -> str:
    """The folder of the blobs outside a data file; it has the name of the file without suffix."""
    return f"{DATA}/{data_file_name.removesuffix('.lance')}"


def index_folder(uuid: str) -> str:
    return f"{INDICES}/{uuid}"
