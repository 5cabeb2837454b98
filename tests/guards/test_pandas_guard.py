"""A process of ours starts without pandas; a program that imports us keeps pandas as it is."""

import os
import subprocess
import sys

import pytest

from omnigraph.pandas_guard import OWN_PROCESS

OURS = """
import sys
import omnigraph.sdk.embedded.graph
import omnigraph.pipeline.stage.ingest
assert not [each for each in sys.meta_path if type(each).__module__.startswith("omnigraph")]
import pyarrow as pa
"""

WITHOUT_PANDAS = """
pa.array(["x"]), pa.table({"a": [1]})
assert "pandas" not in sys.modules
"""

PANDAS = """
import importlib.util
assert importlib.util.find_spec("pandas") is not None
import pandas
assert type(pandas.__spec__.loader) is type(pandas.__loader__) is type(pa.__loader__)
"""

SHOW = "from omnigraph.pandas_guard import show_pandas\nshow_pandas()\n"

USES = [
    "assert pa.array(pandas.Series([1.0, None])).null_count == 1",
    'assert pa.table({"a": [1, None]}).to_pandas()["a"].isna().sum() == 1',
    'assert pa.table(pandas.DataFrame({"a": [1.0, None]}))["a"].null_count == 1',
    'assert pa.Table.from_pandas(pandas.DataFrame({"a": ["x"]})).num_rows == 1',
]


def run(program: str, *, is_own: bool) -> None:
    environment = {name: value for name, value in os.environ.items() if name != OWN_PROCESS}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment | ({OWN_PROCESS: "1"} if is_own else {}),
    )
    assert done.returncode == 0, done.stderr


def test_importing_omnigraph_changes_nothing_about_pandas() -> None:
    run(OURS + PANDAS + "\n".join(USES), is_own=False)


def test_a_program_that_imported_pandas_before_keeps_it() -> None:
    run("import pandas\n" + OURS + PANDAS + "\n".join(USES), is_own=False)


def test_arrow_uses_pandas_that_it_imported_itself() -> None:
    run(OURS + 'assert pa.table({"a": [1]}).to_pandas().shape == (1, 1)\n', is_own=False)


@pytest.mark.parametrize("use", USES)
def test_a_process_of_ours_imports_pandas_only_to_use_it(use: str) -> None:
    run(OURS + WITHOUT_PANDAS + PANDAS + SHOW + use, is_own=True)
