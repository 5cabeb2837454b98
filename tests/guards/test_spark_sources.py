"""What the pipeline believes of Spark's data sources in Python. A new version is met here first."""

import zipfile
from pathlib import Path

import pyspark

SCAN = "org/apache/spark/sql/execution/datasources/v2/python/PythonScanBuilder.class"


def test_what_is_pushed_into_one_scan_is_kept_with_the_source() -> None:
    """So every other scan of a DataFrame gets it too, and filters are not pushed (docs/adr/0011).

    If this fails, Spark was mended: take filters, and by default.
    """
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-sql_2.*.jar")
    scan = zipfile.ZipFile(jar).read(SCAN)
    assert b"pushdownFiltersInPython" in scan
    assert b"setReadInfo" in scan
