"""Media types of bodies, and headers of our own."""

from typing import Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"

HEADER: Final = b"omnigraph:result"
"""The metadata key of an Arrow schema that holds the JSON document without its rows."""

SNAPSHOT_ID: Final = "Omnigraph-Snapshot-Id"
"""The header with the commit at which a Blob was read."""

MESSAGE: Final = "Omnigraph-Message"
"""The header with the message of a write: UTF-8, percent-encoded."""
