"""Which tests run in one process when several run side by side, and that no example is timed.

A file stays together, because its fixtures are shared; everything that needs Spark stays together,
because a session takes seconds to start and a gigabyte to keep.
"""

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# How long an example takes says who else uses the machine. What things cost is counted, in `cost`.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "spark" if "/pipeline/" in path else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)
