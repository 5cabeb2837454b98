"""Graphs in real places: a folder, and a bucket behind a real endpoint."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from omnigraph.effects import REAL
from omnigraph.engine.opening import create
from omnigraph.engine.settings import Settings
from support.publishing import Place

BUCKET = "graphs"

TABLES = "node A { name: String @key }  node B { name: String @key }  node C { name: String @key }"


@pytest.fixture(scope="session")
def bucket() -> Iterator[dict[str, str]]:
    """The storage options of an S3 that honours conditional writes."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    create_bucket = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")
    urllib.request.urlopen(create_bucket).close()
    yield {
        "aws_access_key_id": "test",
        "aws_secret_access_key": "test",
        "aws_endpoint": address,
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    server.stop()


def made(place: Place) -> Place:
    settings = Settings(storage_options=place.storage_options, durability=place.durability)
    create(place.uri, TABLES, settings=settings)
    return place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A graph with three empty tables, `node:A`, `node:B` and `node:C`, on this disk."""
    return made(Place(str(tmp_path / "g")))


@pytest.fixture
def cloud_place(bucket: dict[str, str]) -> Place:
    """The same graph in a bucket."""
    return made(Place(f"s3://{BUCKET}/{REAL.new_id()}", bucket))
