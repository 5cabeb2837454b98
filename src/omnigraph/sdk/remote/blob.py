"""Blobs of a graph behind a server.

A blob is fetched a chunk at a time, so a connection that breaks costs a chunk and not everything
before it. Each request names the tag the blob was opened with. Should a writer have changed it
meanwhile, the snapshot it was opened on still shows what it was.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace

import httpx

from omnigraph.engine.query.blob import BlobName, OpenBlob, split
from omnigraph.errors import BlobChanged, ExternalBlob, ServerAnswerInvalid
from omnigraph.ids import CommitId
from omnigraph.sdk.remote.blocking import iterate
from omnigraph.sdk.remote.http import AsyncConnection
from omnigraph.wire.media import SNAPSHOT_ID

ROUTE = "/blob"


async def open_remote_blob(
    connection: AsyncConnection, name: BlobName, moment: Mapping[str, object]
) -> "AsyncBlob":
    """Raises BlobNotFound, NotABlob, and the rest of what the server tells."""
    asked = {
        **moment,
        "entity": name.entity,
        "type": name.type_name,
        "id": name.id,
        "property": name.property_name,
    }
    answer = await connection.ask("HEAD", ROUTE, params=asked)
    if answer.is_error:
        return await _explained(connection, name, asked, answer)
    commit = _commit_of(answer)
    if answer.is_redirect:
        return AsyncBlob(OpenBlob(name, commit, uri=answer.headers["Location"]))
    try:
        length, etag = int(answer.headers["Content-Length"]), answer.headers["ETag"].strip('"')
    except (KeyError, ValueError):
        raise ServerAnswerInvalid(
            connection.url, status=answer.status_code, reason="no length or no tag"
        ) from None
    pinned = None if commit is None else {**_without_moment(asked), "snapshot": commit}
    source = _Served(connection, etag, asked, pinned)
    return AsyncBlob(OpenBlob(name, commit, length, etag), source)


async def _explained(
    connection: AsyncConnection,
    name: BlobName,
    asked: Mapping[str, object],
    refused: httpx.Response,
) -> "AsyncBlob":
    """An answer to HEAD has no body that could say why; an answer to GET has."""
    answer = await connection.ask("GET", ROUTE, params=asked, headers={"Range": "bytes=0-0"})
    error = connection.problem(answer if answer.is_error else refused)
    if isinstance(error, ExternalBlob):
        return AsyncBlob(OpenBlob(name, _commit_of(answer), uri=error.uri))
    raise error


def _commit_of(answer: httpx.Response) -> CommitId | None:
    found = answer.headers.get(SNAPSHOT_ID)
    return None if found is None else CommitId(found)


_MOMENT = ("branch", "snapshot", "version", "at")


def _without_moment(asked: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in asked.items() if key not in _MOMENT}


@dataclass(frozen=True, slots=True)
class _Served:
    connection: AsyncConnection
    etag: str
    asked: Mapping[str, object]
    pinned: Mapping[str, object] | None
    """The same blob, asked for by the commit that shows it."""

    async def fetch(self, offset: int, length: int) -> AsyncIterator[bytes]:
        for start, size in split(offset, length):
            yield await self._chunk(start, size)

    async def _chunk(self, start: int, size: int) -> bytes:
        try:
            return await self._ask(self.asked, start, size)
        except BlobChanged:
            if self.pinned is None:
                raise
            return await self._ask(self.pinned, start, size)

    async def _ask(self, asked: Mapping[str, object], start: int, size: int) -> bytes:
        headers = {"Range": f"bytes={start}-{start + size - 1}", "If-Match": f'"{self.etag}"'}
        answer = await self.connection.ask("GET", ROUTE, params=asked, headers=headers)
        if answer.is_error:
            raise self.connection.problem(answer)
        if answer.status_code != httpx.codes.PARTIAL_CONTENT or len(answer.content) != size:
            raise ServerAnswerInvalid(
                self.connection.url,
                status=answer.status_code,
                reason=f"{len(answer.content)} bytes instead of {size}",
            )
        return answer.content


@dataclass(frozen=True, slots=True)
class AsyncBlob:
    """An existing blob, read with `await`. Of an external blob only the `uri` is known."""

    opened: OpenBlob
    """What is known of it: its name, commit, length, tag or address."""
    source: _Served | None = None

    @property
    def commit_id(self) -> CommitId | None:
        return self.opened.commit_id

    @property
    def length(self) -> int | None:
        return self.opened.length

    @property
    def etag(self) -> str | None:
        return self.opened.etag

    @property
    def uri(self) -> str | None:
        return self.opened.uri

    async def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """A range of the blob, or all of it; shorter if the blob ends before.

        Raises BlobRangeInvalid beyond the end, ExternalBlob, and what the server tells.
        """
        return b"".join([each async for each in self.chunks(offset, length)])

    async def chunks(self, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """The same range in chunks of at most `CHUNK_BYTES`."""
        start, size = self.opened.find_range(offset, length)
        assert self.source is not None, "a blob that is not external can be fetched"
        async for chunk in self.source.fetch(start, size):
            yield chunk

    def to_blocking(self) -> OpenBlob:
        """The same blob, on a blocking transport."""
        source = self.source
        if source is None:
            return self.opened
        return replace(self.opened, fetch=lambda at, size: iterate(source.fetch(at, size)))
