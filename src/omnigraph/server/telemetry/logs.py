"""Logs: one JSON object a line, on stderr.

Facts are fields, not parts of the message. No header and no body is logged, so no token is.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from omnigraph.server.telemetry.access_log import request_id


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if (identity := request_id.get()) is not None:
            facts["request_id"] = identity
        facts |= getattr(record, "facts", {})
        if record.exc_info:
            facts["trace"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False, default=str)


def start_logging(level: str = "INFO") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("omnigraph", "uvicorn.error"):
        logging.getLogger(name).setLevel(level)
