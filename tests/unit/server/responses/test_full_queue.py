"""A full queue is answered as back pressure: later, and when."""

import json

from omnigraph.errors import WriteQueueFull
from omnigraph.server.responses.error_mapping import problem


def test_a_full_queue_is_429_with_the_time_to_wait() -> None:
    answer = problem(WriteQueueFull("main", waiting=1024, retry_after_s=1))
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"
    document = json.loads(bytes(answer.body))
    assert (document["code"], document["retryable"]) == ("too_many_requests", True)
    assert document["cause"]["code"] == "write_queue_full"
