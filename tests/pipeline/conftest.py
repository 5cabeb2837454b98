"""One Spark session for all tests of the pipeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph.pipeline.spark.session import find_session
from support.loading import LARGE, SETTINGS, SMALL, Loader, new_loader


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = find_session(SETTINGS)
    yield session
    session.stop()


@pytest.fixture(autouse=True, scope="module")
def _on_spark() -> Iterator[None]:
    """Tests of the pipeline load little, and load it on Spark unless they name an engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_LOAD_ENGINE", "spark")
        yield


@pytest.fixture
def loader(spark: SparkSession, tmp_path: Path) -> Loader:  # noqa: ARG001 - starts Spark
    """Loads that one task reads and the evaluator checks."""
    return new_loader(tmp_path, SMALL)


@pytest.fixture
def large(spark: SparkSession, tmp_path: Path) -> Loader:  # noqa: ARG001 - starts Spark
    """Loads that are cut to pieces and checked by joins."""
    return new_loader(tmp_path, LARGE)


@pytest.fixture(params=["small", pytest.param("large", marks=pytest.mark.slow)])
def either(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Loader:  # noqa: ARG001 - starts Spark
    return new_loader(tmp_path, SMALL if request.param == "small" else LARGE)
