"""Which tests run in one process when several run side by side, and that no example is timed.

A file stays together, because its fixtures are shared; everything that needs Spark stays together,
because a session takes seconds to start and a gigabyte to keep. What is slow comes first: begun
last, it would keep one process busy for minutes after the other has nothing left to do.
"""

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# How long an example takes says who else uses the machine. What things cost is counted, in `cost`.
# The same examples in every run: a rare one is found by `make soak`, and not by a change that it
# has nothing to do with.
is_random = "OMNIGRAPH_RANDOM" in os.environ
settings.register_profile("untimed", deadline=None, derandomize=not is_random)
settings.load_profile("untimed")


# Processes that tests start import `support` as the tests do.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")])
)


# Processes that tests start compile no module that an earlier one compiled: two thirds of a start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# Graphs of tests live in memory if there is room; those of the soak lie on the disk. What a flush
# must precede is asserted by recorded calls and by rebuilt disks, and not by a disk that is slow.
MEMORY: Final = Path("/dev/shm")
MEMORY_BYTES_MIN: Final = 6 << 30
if not is_random and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES_MIN:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


# No test depends on a helper that the developer has started; the tests of helpers start their own.
os.environ["OMNIGRAPH_WARM"] = "0"


class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return "spark" if "/pipeline/" in path else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    return ByFile(config, log)


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # by the number of tests, which says little
    # A run in the background ignores Ctrl-C, and so would every process that a test interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: ("pipeline" not in item.path.parts, item.path not in slow))
