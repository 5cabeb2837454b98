"""We start without pandas, and whoever wants it has it, whole."""

import subprocess
import sys

import pytest

OURS = """
import omnigraph.sdk.local
import omnigraph.pipeline.stage.ingest
"""

CHECK = """
import importlib.resources
import importlib.util
import pyarrow as pa
assert importlib.util.find_spec("pandas") is not None
import pandas
assert type(pandas.__spec__.loader) is type(pandas.__loader__) is type(pa.__loader__)
assert importlib.resources.files("pandas").joinpath("__init__.py").is_file()
"""

USES = [
    "assert pa.array(pandas.Series([1.0, None])).null_count == 1",
    'assert pa.table({"a": [1, None]}).to_pandas()["a"].isna().sum() == 1',
    'assert pa.table(pandas.DataFrame({"a": [1.0, None]}))["a"].null_count == 1',
    'assert pa.Table.from_pandas(pandas.DataFrame({"a": ["x"]})).num_rows == 1',
]


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("use", USES)
def test_whoever_imports_pandas_later_has_it_in_arrow_too(use: str) -> None:
    missing = "import sys\nassert 'pandas' not in sys.modules\n"
    run(OURS + missing + CHECK + use)


def test_whoever_had_it_before_keeps_it() -> None:
    run("import pandas\n" + OURS + CHECK + "\n".join(USES))


def test_arrow_itself_may_be_the_one_that_imports_it() -> None:
    run(OURS + 'import pyarrow as pa\nassert pa.table({"a": [1]}).to_pandas().shape == (1, 1)\n')
