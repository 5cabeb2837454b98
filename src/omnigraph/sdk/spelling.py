"""Python values as JSON can carry them."""

import base64
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from omnigraph.errors import UsageError


def spell(value: object) -> Any:
    """Dates as ISO text, bytes as `base64:…`, tuples as lists. Raises UsageError for the rest."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case datetime():
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        case date():
            return value.isoformat()
        case bytes():
            return f"base64:{base64.b64encode(value).decode()}"
        case Decimal():
            return float(value)
        case Mapping():
            return {str(key): spell(each) for key, each in value.items()}
        case Sequence():
            return [spell(each) for each in value]
        case _:
            raise UsageError(f"a {type(value).__name__} cannot be sent to a server")
