"""What a server says about itself to whoever asks."""

import omnigraph
from omnigraph.commit.manifest.records import JsonObject
from omnigraph.commit.manifest.stamp import CURRENT


def health_document() -> JsonObject:
    return {
        "status": "ok",
        "version": omnigraph.__version__,
        "internal_schema_version": CURRENT,
    }
