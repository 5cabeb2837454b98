"""The faults of a load that is refused, in a file, one JSON object a line.

They are written as they come, so that there may be any number of them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from omnigraph.engine.load.bulk import Rejects
from omnigraph.errors import FileUnreadable, LoadRejected, RecordFault
from omnigraph.sdk.documents import fault_document


@contextmanager
def rejecting(path: str | Path | None) -> Iterator[Rejects | None]:
    """Whom to tell of faults; None if nobody wants to know. Without faults there is no file.

    Raises FileUnreadable; the load is refused either way.
    """
    if path is None:
        yield None
        return
    file = _RejectsFile(Path(path))
    try:
        yield file.add
    except LoadRejected as rejected:
        if not file.is_begun:  # who refused knows no more than he says
            for each in rejected.faults:
                file.add(each)
        raise
    finally:
        file.close()


class _RejectsFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    @property
    def is_begun(self) -> bool:
        return self._file is not None

    def add(self, fault: RecordFault) -> None:
        line = json.dumps(fault_document(fault), ensure_ascii=False)
        try:
            if self._file is None:
                self._file = self._path.open("w", encoding="utf-8")
            self._file.write(f"{line}\n")
        except OSError as error:
            raise FileUnreadable(str(self._path), reason=error.strerror or str(error)) from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
