"""Which tests run in one process when several run side by side.

A file stays together, because its fixtures are shared; everything that needs Spark stays together,
because a session takes seconds to start and a gigabyte to keep.
"""

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "spark" if "/pipeline/" in path else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)
