"""Which tests run in one process when several run side by side.

A file stays together, because its fixtures are shared; everything that needs Spark stays together,
because a session takes seconds to start and a gigabyte to keep.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        needs_spark = TESTS / "pipeline" in item.path.parents
        needs_spark = needs_spark or "spark" in getattr(item, "fixturenames", ())
        group = "spark" if needs_spark else str(item.path.relative_to(TESTS))
        item.add_marker(pytest.mark.xdist_group(group))
