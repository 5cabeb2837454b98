"""Every path of a store, spelled once.

Two families of names live here. *Keys* address objects and tables relative to the root of a graph
and are the same on every backend. The names Lance gives to the files inside a table are repeated
here too, because durability (which files must reach the disk), the cheap freshness probe and the
removal of a half-made branch need them; the guard tests compare them with what Lance writes.
"""

import os
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from omnigraph.errors import StoreUriInvalid
from omnigraph.ids import TypeKind

# --- the root -------------------------------------------------------------------------------

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
MEMORY_URI: Final = "memory://"


@dataclass(frozen=True, slots=True)
class Root:
    """Where a graph is kept. `uri` has no trailing slash and, if local, is an absolute path.

    Lance writes the path it was given into every branch, so a relative one would come to mean
    another place as soon as somebody changes directory (D16).
    """

    uri: str
    is_local: bool

    def locate(self, key: str) -> str:
        """The full address of `key`, fit for Lance."""
        return f"{self.uri.rstrip('/')}/{key}"


def relative(path: str, root: str) -> str:
    """Where something is below the root, however Lance spells the store."""
    above = root.rstrip("/") + "/"
    tail = path if path.startswith(above) else "/" + path.lstrip("/")
    return tail.removeprefix(above).rstrip("/")


def parse_root(text: str) -> Root:
    """Read a root as people write it: a path, a `file://` path, or `s3://bucket/prefix`.

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
        case found:
            raise StoreUriInvalid(text, reason=f"'{found[1]}' stores are not supported")


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
"""Says whose the branch is that stands for «a schema change is under way»."""

RECOVERY: Final = "__recovery"
FENCE_SUFFIX: Final = ".fence"
LEASES: Final = "__leases"
STAGING: Final = "__staging"
SCHEMAS: Final = "__schemas"
JOBS: Final = "__jobs"
PROMISES: Final = "__promises"
CLOCK: Final = "__clock"
PROBE: Final = "__probe"


def staged_schema_key(schema_file: str) -> str:
    """Where the next content of one of the three schema files waits for its promotion."""
    return f"{schema_file}.staging"


def past_schema_key(schema_hash: str) -> str:
    """Where a schema that was in force once is kept, for whoever reads commits of that time."""
    return f"{SCHEMAS}/{_encode(schema_hash)}.pg"


def sidecar_key(operation_id: str) -> str:
    return f"{RECOVERY}/{operation_id}.json"


def fence_key(operation_id: str) -> str:
    """Beside the sidecars, and no sidecar: other programs read only what ends in `.json`."""
    return f"{RECOVERY}/{operation_id}{FENCE_SUFFIX}"


def lease_key(table: str, branch: str | None) -> str:
    return f"{LEASES}/{_encode(table)}@{_encode(branch or 'main')}.json"


def lease_line_prefix(table: str, branch: str | None) -> str:
    """Where those who wait for a lease leave their tickets."""
    return f"{LEASES}/{_encode(table)}@{_encode(branch or 'main')}.line"


def staging_record_key(operation_id: str) -> str:
    return f"{STAGING}/{operation_id}.json"


def scratch_prefix(name: str) -> str:
    """Where a table is tried out that nobody will ever see."""
    return f"{STAGING}/{name}.scratch"


def job_key(job_id: str) -> str:
    return f"{JOBS}/{job_id}.json"


def promise_key(owner: str) -> str:
    """Where an idempotency key is noted that no commit can carry."""
    return f"{PROMISES}/{owner}.json"


def _encode(name: str) -> str:
    """One path segment out of any name; `/` becomes `%2F`."""
    return quote(name, safe="")


# --- tables ---------------------------------------------------------------------------------

MANIFEST: Final = "__manifest"
LEGACY_COMMITS: Final = "_graph_commits.lance"
LEGACY_ACTORS: Final = "_graph_commit_actors.lance"
LEGACY_RUNS: Final = ("_graph_runs.lance", "_graph_run_actors.lance")
"""Written by programs of long ago; nobody reads them."""
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


def table_path(kind: TypeKind, type_name: str) -> str:
    """Where the rows of one type live. A path never changes while the type keeps its name."""
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
"""What a table consists of besides its refs and its branches. Versions first: without them the
rest is unreachable, so a removal that dies halfway leaves debris and never half a table."""


def branch_folder(branch: str | None) -> str:
    """The folder of a branch, relative to its table; empty for main. Slashes nest."""
    return f"{BRANCH_TREE}/{branch}" if branch is not None else ""


def branch_ref_file(branch: str) -> str:
    return f"{BRANCH_REFS}/{_encode(branch)}.json"


def branch_of_ref_file(name: str) -> str:
    """The branch a file of the refs folder stands for."""
    return unquote(name.removesuffix(".json"))


def version_file(version: int) -> str:
    """Lance counts its manifest files down, so that the newest version sorts first."""
    return f"{VERSIONS}/{_WORD - 1 - version:020}.manifest"


VERSION_HINT: Final = f"{VERSIONS}/latest_version_hint.json"
"""What Lance notes of the newest version of a local table."""


def transaction_file(read_version: int, uuid: str) -> str:
    return f"{TRANSACTIONS}/{read_version}-{uuid}.txn"


def data_file(name: str) -> str:
    return f"{DATA}/{name}"


def blob_folder(data_file_name: str) -> str:
    """Where the blobs too large for a data file are kept: a folder with the file's own stem."""
    return f"{DATA}/{data_file_name.removesuffix('.lance')}"


def index_folder(uuid: str) -> str:
    return f"{INDICES}/{uuid}"
