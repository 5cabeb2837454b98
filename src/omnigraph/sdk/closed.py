"""What stands in the place of a graph or a connection once it is closed."""

from typing import NoReturn

from omnigraph.errors import GraphClosed


class Closed:
    """Raises GraphClosed whatever is asked of it; closing it again is allowed."""

    def __init__(self, place: str) -> None:
        self._place = place

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        raise GraphClosed(self._place)
