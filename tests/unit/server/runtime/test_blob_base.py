"""The allow list of external blobs."""

import pytest

from omnigraph.errors import ConfigInvalid
from omnigraph.server.runtime.blob_base import BlobBase

BASE = BlobBase.parse("https://scans.example.org/letters/", "server.yaml")


@pytest.mark.parametrize(
    "uri",
    [
        "https://scans.example.org/letters/1.tif",
        "https://scans.example.org:443/letters/a/b?page=2",
        "HTTPS://SCANS.example.org/letters/%C3%A4",
    ],
)
def test_what_is_below_the_base_is_allowed(uri: str) -> None:
    assert BASE.holds(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///etc/passwd",
        "http://scans.example.org/letters/1.tif",
        "https://scans.example.org:8443/letters/1.tif",
        "https://scans.example.org/other/1.tif",
        "https://scans.example.org/letters/../other/1.tif",
        "https://scans.example.org/letters/%2e%2e/other/1.tif",
        "https://scans.example.org/letters/..%5cother",
        "https://scans.example.org/letters\\..\\other",
        "https://scans.example.org.evil.example/letters/1.tif",
        "https://scans.example.org@169.254.169.254/letters/1.tif",
        "https://evil.example/https://scans.example.org/letters/1.tif",
        "//scans.example.org/letters/1.tif",
        "https://scans.example.org/letters/1.tif\r\nSet-Cookie: a=b",
        "https://scans.example.org:http/letters/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://127.0.0.1:8080/graphs",
        "http://2130706433/",
    ],
)
def test_nothing_else_is(uri: str) -> None:
    assert not BASE.holds(uri)


@pytest.mark.parametrize(
    "text",
    ["https://x", "https://x/a", "ftp://x/", "https:///", "https://u:p@x/", "https://x/?q/", "x/"],
)
def test_a_base_that_would_allow_more_than_it_says_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid, match="ends with a slash"):
        BlobBase.parse(text, "server.yaml")
