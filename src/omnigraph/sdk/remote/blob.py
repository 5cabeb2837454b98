"""Blobs of a graph behind a server.

A blob is fetched a chunk at a time, so a connection that breaks costs a chunk and not everything
before it. Each request names the tag the blob was opened with. Should a writer have changed it
meanwhile, the snapshot it was opened on still shows what it was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx

from omnigraph.engine.query.blob import BlobName, OpenBlob, split
from omnigraph.errors import BlobChanged, ExternalBlob, ServerAnswerInvalid
from omnigraph.ids import CommitId
from omnigraph.sdk.remote.http import ServerConnection
from omnigraph.wire.media import SNAPSHOT_ID

ROUTE = "/blob"


def open_remote_blob(
    connection: ServerConnection, name: BlobName, moment: Mapping[str, object]
) -> OpenBlob:
    """Raises BlobNotFound, NotABlob, and the rest of what the server tells."""
    asked = {
        **moment,
        "entity": name.entity,
        "type": name.type_name,
        "id": name.id,
        "property": name.property_name,
    }
    answer = connection.ask("HEAD", ROUTE, params=asked)
    if answer.is_error:
        return _explained(connection, name, asked, answer)
    commit = _commit_of(answer)
    if answer.is_redirect:
        return OpenBlob(name, commit, uri=answer.headers["Location"])
    try:
        length, etag = int(answer.headers["Content-Length"]), answer.headers["ETag"].strip('"')
    except (KeyError, ValueError):
        raise ServerAnswerInvalid(
            connection.url, status=answer.status_code, reason="no length or no tag"
        ) from None
    pinned = None if commit is None else {**_without_moment(asked), "snapshot": commit}
    source = _Served(connection, etag, asked, pinned)
    return OpenBlob(name, commit, length, etag, fetch=source.fetch)


def _explained(
    connection: ServerConnection,
    name: BlobName,
    asked: Mapping[str, object],
    refused: httpx.Response,
) -> OpenBlob:
    """An answer to HEAD has no body that could say why; an answer to GET has."""
    answer = connection.ask("GET", ROUTE, params=asked, headers={"Range": "bytes=0-0"})
    error = connection.problem(answer if answer.is_error else refused)
    if isinstance(error, ExternalBlob):
        return OpenBlob(name, _commit_of(answer), uri=error.uri)
    raise error


def _commit_of(answer: httpx.Response) -> CommitId | None:
    found = answer.headers.get(SNAPSHOT_ID)
    return None if found is None else CommitId(found)


_MOMENT = ("branch", "snapshot", "version", "at")


def _without_moment(asked: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in asked.items() if key not in _MOMENT}


@dataclass(frozen=True, slots=True)
class _Served:
    connection: ServerConnection
    etag: str
    asked: Mapping[str, object]
    pinned: Mapping[str, object] | None
    """The same blob, asked for by the commit that shows it."""

    def fetch(self, offset: int, length: int) -> Iterator[bytes]:
        for start, size in split(offset, length):
            yield self._chunk(start, size)

    def _chunk(self, start: int, size: int) -> bytes:
        try:
            return self._ask(self.asked, start, size)
        except BlobChanged:
            if self.pinned is None:
                raise
            return self._ask(self.pinned, start, size)

    def _ask(self, asked: Mapping[str, object], start: int, size: int) -> bytes:
        headers = {"Range": f"bytes={start}-{start + size - 1}", "If-Match": f'"{self.etag}"'}
        answer = self.connection.ask("GET", ROUTE, params=asked, headers=headers)
        if answer.is_error:
            raise self.connection.problem(answer)
        if answer.status_code != httpx.codes.PARTIAL_CONTENT or len(answer.content) != size:
            raise ServerAnswerInvalid(
                self.connection.url,
                status=answer.status_code,
                reason=f"{len(answer.content)} bytes instead of {size}",
            )
        return answer.content
