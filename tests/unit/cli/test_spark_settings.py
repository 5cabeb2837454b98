"""Where bulk work runs: what is said nearest wins."""

from pathlib import Path

import pytest

from omnigraph.cli.config import read_config
from omnigraph.cli.options import find_spark
from omnigraph.errors import ConfigInvalid
from omnigraph.pipeline.settings import LOCAL

SECTION = """
spark:
  master: spark://file:7077
  scratch: /shared
  concurrency: 3
  configuration: {spark.executor.memory: 2g, spark.ui.enabled: true}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    for name in ("MASTER", "REMOTE", "SCRATCH"):
        monkeypatch.delenv(f"OMNIGRAPH_SPARK_{name}", raising=False)
    monkeypatch.delenv("OMNIGRAPH_LOAD_CONCURRENCY", raising=False)
    return tmp_path


def test_without_a_word_it_is_this_machine() -> None:
    found = find_spark(None, None)
    assert (found.master, found.remote, found.is_brief) == (LOCAL, None, True)


def test_the_file_the_environment_and_the_command_line_are_asked_in_that_order(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.yaml").write_text(SECTION)
    found = find_spark(None, None)
    assert (found.master, found.scratch, found.concurrency) == ("spark://file:7077", "/shared", 3)
    assert found.configuration == {"spark.executor.memory": "2g", "spark.ui.enabled": "true"}
    monkeypatch.setenv("OMNIGRAPH_SPARK_REMOTE", "sc://env")
    monkeypatch.setenv("OMNIGRAPH_LOAD_CONCURRENCY", "5")
    found = find_spark(None, None)
    assert (found.remote, found.scratch, found.concurrency) == ("sc://env", "/shared", 5)
    assert find_spark(None, "sc://flag").remote == "sc://flag"


def test_a_master_that_is_named_nearer_than_a_remote_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMNIGRAPH_SPARK_REMOTE", "sc://env")
    found = find_spark("local[1]", None)
    assert (found.master, found.remote) == ("local[1]", None)


@pytest.mark.parametrize(
    "section",
    ["spark: 3", "spark: {master: 3}", "spark: {concurrency: 0}", "spark: {configuration: x}"],
)
def test_a_section_that_makes_no_sense_is_refused(home: Path, section: str) -> None:
    (home / "config.yaml").write_text(section)
    with pytest.raises(ConfigInvalid, match="spark"):
        read_config()


def test_an_unknown_key_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.yaml").write_text("spark: {mastre: local}")
    read_config()
    assert "unknown key 'spark.mastre'" in capsys.readouterr().err
