"""The command line on a bucket behind a real endpoint: every way to say how it is reached."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import obstore
import pytest
from obstore.store import ObjectStore

import omnigraph
from integration.conftest import BUCKET
from omnigraph.effects import REAL
from omnigraph.errors import UsageError
from omnigraph.server.runtime.settings import Flags
from omnigraph.storage.bucket_options import resolve_bucket
from omnigraph.storage.objects_cloud import connect
from support.pages import ROOT, Reader
from support.serving import running

SCHEMA = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
ADD = "query add($n: String) { insert Person { name: $n } }"
NAMES = "query names() { match { $p: Person } return { $p.name as name } }"
SECRET = "hidden-secret"


@dataclass
class Shell:
    """Runs the command in processes of its own, without the settings of this machine."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    printed: list[str] = field(default_factory=list)

    def run(self, *words: str, expected: int = 0) -> str:
        kept = ("PATH", "LANG", "JAVA_HOME", "PYTHONPATH", "VIRTUAL_ENV")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        done = subprocess.run(
            [sys.executable, "-m", "omnigraph", *words, *self.flags],
            cwd=self.folder,
            env={**environment, "HOME": str(self.folder), **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expected, done.stderr
        assert "Traceback" not in done.stderr
        self.printed.append(done.stdout + done.stderr)
        return done.stdout

    def names(self, *words: str) -> set[str]:
        rows = json.loads(self.run("query", "-e", NAMES, "--json", *words))["rows"]
        return {row["name"] for row in rows}


def address_of(bucket: Mapping[str, str]) -> str:
    return bucket["aws_endpoint"]


def read_object(bucket: Mapping[str, str], key: str) -> bytes:
    return bytes(obstore.get(_store(bucket), key).bytes())


def put_object(bucket: Mapping[str, str], key: str, data: bytes) -> None:
    obstore.put(_store(bucket), key, data)


def _store(bucket: Mapping[str, str]) -> ObjectStore:
    return connect(resolve_bucket(f"s3://{BUCKET}", bucket))


@pytest.fixture
def prefix(tmp_path: Path, bucket: dict[str, str]) -> str:
    """A fresh prefix of the bucket, with a file to load; its schema lies in the folder."""
    (tmp_path / "schema.pg").write_text(SCHEMA)
    made = REAL.new_id()
    put_object(bucket, f"{made}/in/a.jsonl", b'{"type":"Person","data":{"name":"cyd"}}\n')
    return made


@pytest.mark.slow
def test_variables_alone_reach_a_bucket_from_init_to_export(
    tmp_path: Path, bucket: dict[str, str], prefix: str
) -> None:
    shell = Shell(
        tmp_path,
        {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": address_of(bucket),
            "AWS_ALLOW_HTTP": "true",
            "AWS_DEFAULT_REGION": "eu-west-1",
        },
    )
    place = f"s3://{BUCKET}/{prefix}"
    graph = f"{place}/g.omni"
    shell.run("init", graph, "--schema", "schema.pg")
    shell.run("mutate", graph, "-e", ADD, "--params", '{"n": "ada"}')
    shell.run("branch", "create", "review", graph)
    shell.run("mutate", graph, "-e", ADD, "--params", '{"n": "bob"}', "--branch", "review")
    shell.run("branch", "merge", "review", graph)
    loaded = shell.run("load", graph, f"{place}/in/*.jsonl", "--mode", "append", "--json")
    assert json.loads(loaded)["engine"] == "local"
    assert shell.names(graph) == {"ada", "bob", "cyd"}

    shell.run("export", graph, "--output", f"{place}/out/all.jsonl.gz")
    lines = gzip.decompress(read_object(bucket, f"{prefix}/out/all.jsonl.gz")).decode().splitlines()
    assert {json.loads(line)["data"]["name"] for line in lines} == {"ada", "bob", "cyd"}
    shell.run("export", graph, "--format", "parquet", "--output", f"{place}/out/tables")
    assert read_object(bucket, f"{prefix}/out/tables/_SUCCESS") == b""
    assert (
        read_object(bucket, f"{prefix}/out/tables/nodes/Person/part-00000.parquet")[:4] == b"PAR1"
    )
    opened = omnigraph.open(graph, read_only=True, storage_options=bucket)
    with pytest.raises(UsageError, match="is there already"):
        opened.export(f"{place}/out/tables", format="parquet")
    assert SECRET not in "".join(shell.printed)


@pytest.mark.slow
def test_flags_profiles_and_pipeline_files_reach_a_bucket_without_variables(
    tmp_path: Path, bucket: dict[str, str], prefix: str
) -> None:
    place = f"s3://{BUCKET}/{prefix}"
    graph = f"{place}/g.omni"
    options = {"access_key_id": "test", "secret_access_key": SECRET, "allow_http": "true"}
    given = {**options, "endpoint": address_of(bucket)}
    flags = [f"--storage-option={name}={value}" for name, value in given.items()]
    Shell(tmp_path, flags=tuple(flags)).run("init", graph, "--schema", "schema.pg")
    home = tmp_path / ".omnigraph"
    home.mkdir()
    in_file = {**options, "secret_access_key": "$MINIO_SECRET", "endpoint": address_of(bucket)}
    profile = {"store": graph, "storage_options": in_file}
    (home / "config.yaml").write_text(json.dumps({"profiles": {"minio": profile}}))
    (tmp_path / "load.yaml").write_text(
        json.dumps(
            {
                "mode": "append",
                "storage_options": {"region": "eu-west-1"},
                "inputs": [{"data": f"{place}/in/a.jsonl"}],
            }
        )
    )
    shell = Shell(tmp_path, {"MINIO_SECRET": SECRET}, ("--profile", "minio"))
    shell.run("pipeline", "run", "load.yaml")
    assert shell.names() == {"cyd"}
    assert Shell(tmp_path, flags=tuple(flags)).names(graph) == {"cyd"}

    bare = Shell(tmp_path, flags=("--profile", "minio"))
    bare.run("snapshot", expected=1)
    assert "the variable MINIO_SECRET is not set" in bare.printed[0]
    wrong = Shell(tmp_path, {"MINIO_SECRET": SECRET}, ("--profile", "minio"))
    wrong.run("snapshot", "--storage-option", "endpoint=http://127.0.0.1:9", expected=1)
    assert f"the bucket '{BUCKET}' cannot be reached at http://127.0.0.1:9" in wrong.printed[0]
    wrong.run("snapshot", "--storage-option", SECRET, expected=2)
    assert SECRET not in "".join([*shell.printed, *bare.printed, *wrong.printed])


@pytest.mark.parametrize("how", ["flags", "file"])
def test_a_server_reaches_a_graph_by_its_options(
    tmp_path: Path, bucket: dict[str, str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    uri = f"s3://{BUCKET}/{REAL.new_id()}"
    omnigraph.init(uri, SCHEMA, storage_options=bucket).insert("Person", [{"name": "ada"}])
    if how == "flags":
        flags = Flags(graphs=(f"g={uri}",), unauthenticated=True, storage_options=bucket)
    else:
        monkeypatch.setenv("STORE", address_of(bucket))
        options = {**bucket, "aws_endpoint": "${STORE}"}
        graphs = {"g": {"uri": uri, "storage_options": options}}
        file = tmp_path / "server.yaml"
        file.write_text(json.dumps({"version": 1, "graphs": graphs}))
        flags = Flags(config=file, unauthenticated=True)
    with running(flags) as server, omnigraph.connect(server.url, graph="g") as remote:
        assert [row["name"] for row in remote.query(NAMES)] == ["ada"]


def test_every_documented_command_and_program_runs(
    tmp_path: Path, bucket: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in os.environ if each.startswith(("AWS_", "OMNIGRAPH_"))]:
        monkeypatch.delenv(name)
    variables = {
        "HOME": str(tmp_path),
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL": address_of(bucket),
        "AWS_ALLOW_HTTP": "true",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    make = urllib.request.Request(f"{address_of(bucket)}/museum", method="PUT")
    urllib.request.urlopen(make).close()
    Reader(ROOT / "docs" / "object-stores.md").follow()
