"""One blob of a table, read as far as it is asked for."""

from typing import Protocol


class BlobFile(Protocol):
    """The bytes of one blob, which nobody changes: files of a table are written once."""

    @property
    def length(self) -> int: ...

    @property
    def place(self) -> str:
        """Where the bytes are, in words that no other bytes will ever go by.

        The same value written again, such as by a compaction, is at another place.
        """
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Exactly these bytes, which must be there; no others are fetched.

        Raises `StorageFailure`.
        """
        ...
