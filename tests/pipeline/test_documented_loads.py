"""The pages that load on Spark, run as a reader would; here, because this process has a session."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from support.pages import ON_SPARK, ROOT, STORIES, Reader, name_of

STORIES_ON_SPARK = [page for page in STORIES if name_of(page) in ON_SPARK]


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:  # noqa: ARG001 - starts Spark
    """An empty folder with a copy of the examples, where loads choose their engine themselves."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OMNIGRAPH_LOAD_ENGINE")


@pytest.mark.usefixtures("_folder")
def test_every_documented_load_command_runs() -> None:
    Reader(ROOT / "docs" / "pipeline.md", only=["sh"]).follow()


@pytest.mark.usefixtures("_folder")
def test_every_documented_load_program_runs() -> None:
    omnigraph.init("museum.omni", Path("examples/museum/schema.pg"))
    Reader(ROOT / "docs" / "pipeline.md", only=["python"]).follow()


@pytest.mark.slow
@pytest.mark.usefixtures("_folder")
def test_every_program_for_spark_users_runs() -> None:
    Reader(ROOT / "docs" / "spark.md").follow()


@pytest.mark.parametrize("page", STORIES_ON_SPARK, ids=name_of)
@pytest.mark.usefixtures("_folder")
def test_every_story_on_spark_runs(page: Path) -> None:
    Reader(page).follow()
