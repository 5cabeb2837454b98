"""The names of the forms an answer can take."""

from typing import Final

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"

HEADER: Final = b"omnigraph:result"
"""The key under which an Arrow schema says what a JSON document says beside its rows."""

SNAPSHOT_ID: Final = "Omnigraph-Snapshot-Id"
"""The header that says as which commit left the graph a blob was read."""

MESSAGE: Final = "Omnigraph-Message"
"""The header that says why a write is made: UTF-8, percent-encoded."""
