"""One set of options reaches a bucket, whichever library asks: obstore and Lance send alike."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.effects import REAL
from omnigraph.errors import ConfigInvalid, ObjectNotFound, OmnigraphError, StoreUriInvalid
from omnigraph.storage.bucket_options import (
    canonical_options,
    expand_variables,
    overlay_options,
    resolve_bucket,
)
from omnigraph.storage.inputs import find_inputs
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import TableRef
from support.s3_stub import Seen, Stub, run_stub

URI = "s3://buck/graph"
FAR = "http://minio.test:9000"
"""Reached through a proxy."""
KEYS = {"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "hidden-env"}
OWN_KEYS = {"aws_access_key_id": "own", "aws_secret_access_key": "hidden-own"}
PROFILES = """
[default]
region = eu-north-1
[profile work]
region = eu-west-3
endpoint_url = ENDPOINT
[profile login]
sso_session = company
"""
CREDENTIALS = """
[default]
aws_access_key_id = default
aws_secret_access_key = hidden-default
[work]
aws_access_key_id = work
aws_secret_access_key = hidden-work
aws_session_token = hidden-token
"""


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with run_stub() as running:
        yield running


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stub: Stub) -> None:
    """No settings of this machine, and a home with profiles."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(PROFILES.replace("ENDPOINT", stub.address))
    (tmp_path / ".aws" / "credentials").write_text(CREDENTIALS)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")


def ask_both(stub: Stub, options: dict[str, str]) -> list[set[Seen]]:
    """What the store saw when objects, tables and inputs were asked."""
    stub.take()
    stores = open_stores(URI, REAL, storage_options=options, is_written=False)
    with pytest.raises(ObjectNotFound):
        stores.objects.read("thing")
    of_objects = stub.take()
    with pytest.raises(OmnigraphError):
        stores.tables.open_at(TableRef("nodes/thing"))
    of_tables = stub.take()
    with pytest.raises(OmnigraphError):
        find_inputs("s3://buck/in/*.jsonl", options)
    return [of_objects, of_tables, stub.take()]


CASES: list[tuple[dict[str, str], dict[str, str], dict[str, object]]] = [
    (KEYS | {"AWS_ENDPOINT_URL": "HERE"}, {}, {"key_id": "env", "region": "eu-north-1"}),
    (
        KEYS | {"AWS_ENDPOINT_URL_S3": "HERE", "AWS_ENDPOINT_URL": "ELSEWHERE"},
        {},
        {"key_id": "env"},
    ),
    (KEYS | {"AWS_ENDPOINT_URL_S3": "ELSEWHERE"}, {"aws_endpoint": "HERE"}, {"key_id": "env"}),
    (KEYS | {"AWS_ENDPOINT_URL": "ELSEWHERE"}, {"endpoint_url": "HERE"}, {"key_id": "env"}),
    (
        KEYS | {"AWS_ENDPOINT_URL": "HERE", "AWS_DEFAULT_REGION": "eu-a-1"},
        {},
        {"region": "eu-a-1"},
    ),
    (
        KEYS | {"AWS_ENDPOINT_URL": "HERE", "AWS_DEFAULT_REGION": "eu-a-1", "AWS_REGION": "eu-b-1"},
        {},
        {"region": "eu-b-1"},
    ),
    (
        KEYS | {"AWS_ENDPOINT_URL": "HERE", "AWS_REGION": "eu-b-1"},
        {"region": "eu-c-1"},
        {"region": "eu-c-1"},
    ),
    (KEYS | {"AWS_ENDPOINT_URL": "HERE", "AWS_SESSION_TOKEN": "t"}, {}, {"token": "t"}),
    (KEYS | {"AWS_ENDPOINT_URL": "HERE"}, OWN_KEYS, {"key_id": "own", "token": None}),
    ({"AWS_ENDPOINT_URL": "HERE"}, {}, {"key_id": "default", "region": "eu-north-1"}),
    (
        {"AWS_PROFILE": "work"},
        {},
        {"key_id": "work", "region": "eu-west-3", "token": "hidden-token"},
    ),
    (KEYS, {"profile": "work"}, {"key_id": "work", "token": "hidden-token"}),
    (KEYS | {"AWS_PROFILE": "work"}, {}, {"key_id": "env", "region": "eu-west-3"}),
    ({"AWS_ENDPOINT_URL": "HERE", "AWS_SKIP_SIGNATURE": "true"}, {}, {"key_id": None}),
    (
        KEYS | {"AWS_ENDPOINT_URL": FAR, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"},
        {"proxy_url": "HERE"},
        {"bucket_in_path": False, "host": "buck.minio.test:9000"},
    ),
    (
        KEYS | {"AWS_ENDPOINT_URL": FAR, "AWS_S3_FORCE_PATH_STYLE": "false"},
        {"proxy_url": "HERE"},
        {"bucket_in_path": False, "host": "buck.minio.test:9000"},
    ),
    (
        KEYS | {"AWS_ENDPOINT_URL": "HERE", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"},
        {"force_path_style": "true"},
        {"bucket_in_path": True},
    ),
]


@pytest.mark.parametrize(("environment", "options", "expected"), CASES)
def test_objects_tables_and_inputs_ask_alike(
    environment: dict[str, str],
    options: dict[str, str],
    expected: dict[str, object],
    stub: Stub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {"ELSEWHERE": "http://127.0.0.1:9", "HERE": stub.address}
    for name, value in environment.items():
        monkeypatch.setenv(name, places.get(value, value))
    asked = ask_both(stub, {name: places.get(value, value) for name, value in options.items()})
    assert asked[0] == asked[1] == asked[2]
    (seen,) = asked[0]
    assert {name: getattr(seen, name) for name in expected} == expected


def test_both_are_given_the_same_complete_options(stub: Stub) -> None:
    """No variable is left for a library to find: what one is given, the other is given too."""
    given = {**OWN_KEYS, "endpoint": stub.address, "max_retries": "2", "connect_timeout": "3"}
    access = resolve_bucket(URI, given, {"AWS_ALLOW_HTTP": "1", "HOME": "/nowhere"})
    of_lance = access.for_lance()
    of_objects = access.for_obstore()
    assert of_lance.pop("client_max_retries") == "2"
    assert of_lance.pop("client_retry_timeout") == "60"
    assert of_lance == {**of_objects["config"], **of_objects["client_options"]}
    assert of_lance["allow_http"] == "true"
    assert of_lance["connect_timeout"] == "3s"
    assert of_lance["aws_endpoint"] == of_lance["aws_endpoint_url_s3"] == stub.address
    assert of_objects["retry_config"]["max_retries"] == 2
    assert "hidden" not in repr(access)


@pytest.mark.parametrize(
    ("options", "environment", "named"),
    [
        ({"aws_endpont": "https://x"}, {}, "did you mean aws_endpoint"),
        ({"frobnicate": "1"}, {}, "known: aws_access_key_id"),
        ({"aws_region": "a", "region": "b"}, {}, "given twice"),
        ({"allow_http": "maybe"}, {}, "true or false"),
        ({"timeout": "soon"}, {}, "duration"),
        ({"max_retries": "-1"}, {}, "number"),
        ({"endpoint": "minio:9000"}, {}, "https://minio.example.org"),
        ({"endpoint": "not a url"}, {}, "https://minio.example.org"),
        ({"endpoint": "https://a:hidden@b"}, {}, "credentials do not belong"),
        ({"endpoint": "http://minio:9000"}, {"AWS_ALLOW_HTTP": ""}, "AWS_ALLOW_HTTP=true"),
        ({"aws_access_key_id": "a"}, {}, "without it"),
        ({}, {"AWS_SECRET_ACCESS_KEY": "hidden"}, "without it"),
        (OWN_KEYS, {"AWS_SESSION_TOKEN": "hidden"}, "belongs to other keys"),
        ({"profile": "nope"}, {}, "known: default, login, work"),
        ({}, {"AWS_PROFILE": "login"}, "aws configure export-credentials --profile login"),
        ({"virtual_hosted_style_request": "1", "force_path_style": "1"}, {}, "contradicts"),
    ],
)
def test_options_that_do_not_fit_are_named_and_their_values_are_not(
    options: dict[str, str],
    environment: dict[str, str],
    named: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigInvalid, match=re.escape(named)) as caught:
        open_stores(URI, REAL, storage_options=options)
    assert "hidden" not in str(caught.value)


def test_programs_may_give_values_that_are_not_texts() -> None:
    given = {"allow_http": True, "max_retries": 2}
    assert canonical_options(given) == {"allow_http": "true", "client_max_retries": "2"}
    with pytest.raises(ConfigInvalid, match="not a NoneType"):
        canonical_options({"region": None})


def test_an_upper_set_replaces_the_credentials_below_as_a_whole() -> None:
    below = {**OWN_KEYS, "aws_session_token": "t", "region": "a"}
    above = {"profile": "work", "endpoint": "https://x"}
    expected = {"aws_region": "a", "aws_profile": "work", "aws_endpoint": "https://x"}
    assert overlay_options(below, above) == expected


def test_options_of_a_local_graph_are_checked_too(tmp_path: Path) -> None:
    """They reach its input files."""
    with pytest.raises(ConfigInvalid):
        open_stores(str(tmp_path), REAL, storage_options={"regoin": "x"})


@pytest.mark.parametrize(
    ("uri", "named"),
    [
        ("gs://bucket/g", "s3:// (Amazon S3"),
        ("az://container/g", "s3:// (Amazon S3"),
        ("s3a://bucket/g", "write s3://"),
        ("s3://", "names no bucket"),
        ("s3:///g", "names no bucket"),
    ],
)
def test_other_stores_are_refused_with_those_that_work(uri: str, named: str) -> None:
    with pytest.raises(StoreUriInvalid, match=re.escape(named)):
        open_stores(uri, REAL)


def test_variables_in_the_options_of_a_file_are_resolved() -> None:
    options = {"a": "$KEY", "b": "x${KEY}y", "c": "100$$"}
    assert expand_variables(options, {"KEY": "k"}) == {"a": "k", "b": "xky", "c": "100$"}
    with pytest.raises(ConfigInvalid, match="KEY is not set"):
        expand_variables(options, {})
