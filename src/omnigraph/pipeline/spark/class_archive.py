"""The class archive, with which Java starts Spark in half the time.

Starting Spark is mostly loading and checking some ten thousand classes. Java can write down what it
loaded, and map that file the next time. The file is large, fits one Java and one Spark, and is kept
in the user's cache; one that does not fit is ignored by Java itself. `python -m
omnigraph.pipeline.spark.class_archive` makes it, which `make setup` does where there is a Java.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

from omnigraph.pipeline.spark.java import cache_folder, find_java

BUILDING: Final = "OMNIGRAPH_SPARK_ARCHIVE_TO"
"""Names the file that a Java machine shall write when it ends."""

_BUILD_SECONDS_MAX: Final = 300


def archive_path(java: Path) -> Path:
    """The archive for this Java and this Spark."""
    real = java.resolve()
    facts = (str(real), real.stat().st_mtime_ns, pyspark.__version__, pyspark.__file__)
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    return cache_folder() / f"spark-{digest}.jsa"


def archive_options(java: Path, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The options of Java for the archive."""
    building = environment.get(BUILDING)
    if building:
        return [f"-XX:ArchiveClassesAtExit={building}"]
    path = archive_path(java)
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"] if path.exists() else []


def build_archive() -> Path:
    """Make the archive if it is not there, by a load in a process of its own.

    Raises JavaMissing, OSError, and what `subprocess` raises.
    """
    target = archive_path(find_java())
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="archive-") as folder:
        made = Path(folder) / "made.jsa"
        subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-c", _PROGRAM, folder],
            env={**os.environ, BUILDING: str(made)},
            check=True,
            timeout=_BUILD_SECONDS_MAX,
            stdout=subprocess.DEVNULL,
        )
        made.replace(target)
    return target


# Both ways a load can go, so that the classes of both are known.
_PROGRAM: Final = """
import sys
from pathlib import Path
import omnigraph
from omnigraph.engine.load.run import LoadMode, LoadRequest
from omnigraph.pipeline.spark_load import SparkLoader
from omnigraph.pipeline.spark.session import find_session, stop_session
from omnigraph.pipeline.settings import SparkSettings

folder = Path(sys.argv[1])
lines = ['{"type":"T","data":{"k":"a"}}', '{"edge":"E","from":"a","to":"a"}', ""]
(folder / "rows").write_text("\\n".join(lines))
settings = SparkSettings()
graph = omnigraph.init(folder / "g", "node T { k: String @key }  edge E: T -> T")
for bulk in (SparkLoader(settings, small_bytes=0), SparkLoader(settings)):
    graph._graph.load(LoadRequest([str(folder / "rows")], LoadMode.MERGE), bulk)
stop_session(find_session(settings))
"""


if __name__ == "__main__":
    sys.stdout.write(f"{build_archive()}\n")
