"""Commands and their workers start without pandas; libraries that import us are left alone."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
import omnigraph.sdk.local
import omnigraph.pipeline.ingest
import pyarrow as pa
assert ("pandas" in sys.modules) == {expected}
import pandas
assert pa.table({{"a": [1, None]}}).to_pandas()["a"].isna().sum() == 1
assert pa.array(pandas.Series([1.0, None])).null_count == 1
"""


@pytest.mark.parametrize(("lean", "expected"), [("1", False), ("", True)])
def test_pandas_is_left_out_only_where_the_process_is_ours(lean: str, *, expected: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(expected=expected)],
        env={**os.environ, "OMNIGRAPH_LEAN": lean},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
