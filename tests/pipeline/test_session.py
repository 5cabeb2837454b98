"""How Spark is found, and what is said when it is not."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph.errors import JavaMissing, SparkUnusable
from omnigraph.pipeline.archive import find_java
from omnigraph.pipeline.session import SparkSettings, find_session, read_settings


def test_an_active_session_is_used_as_it_is(spark: SparkSession) -> None:
    assert find_session(SparkSettings(master="spark://nowhere:1")) is spark


def test_the_session_is_tuned_for_this_machine(spark: SparkSession) -> None:
    wanted = {
        "spark.ui.enabled": "false",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.speculation": "false",
        "spark.python.worker.reuse": "true",
        "spark.driver.host": "127.0.0.1",
    }
    assert {name: spark.conf.get(name) for name in wanted} == wanted


def test_the_environment_says_where_spark_is() -> None:
    settings = read_settings(
        {
            "OMNIGRAPH_SPARK_MASTER": "spark://head:7077",
            "OMNIGRAPH_SPARK_SCRATCH": "/shared",
            "OMNIGRAPH_LOAD_CONCURRENCY": "3",
        }
    )
    assert settings.master == "spark://head:7077"
    assert not settings.is_local
    assert (settings.scratch, settings.concurrency) == ("/shared", 3)
    assert read_settings({}).is_local
    assert not read_settings({"OMNIGRAPH_SPARK_REMOTE": "sc://head"}).is_local


@pytest.mark.parametrize("given", ["0", "-1", "many"])
def test_a_concurrency_that_is_no_number_is_refused(given: str) -> None:
    with pytest.raises(SparkUnusable, match="OMNIGRAPH_LOAD_CONCURRENCY"):
        read_settings({"OMNIGRAPH_LOAD_CONCURRENCY": given})


@pytest.mark.parametrize("environment", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere"}])
def test_without_java_one_line_says_what_to_install(environment: dict[str, str]) -> None:
    with pytest.raises(JavaMissing, match="install openjdk-17-jre-headless") as caught:
        find_java(environment)
    assert "\n" not in str(caught.value)


def test_java_is_found_where_java_home_points(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    find_java({"JAVA_HOME": str(tmp_path)})
