"""The file with the statistics of a local graph (ADR 66).

There is one file, whatever the number of tables: it is read whole, once for each process that
orders steps. A graph without it, or with a damaged one, has no statistics.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from omnigraph.compiler.ir import Direction
from omnigraph.compiler.statistics import UNKNOWN, Degrees, Departure, Statistics, Values
from omnigraph.jsontext import read_json
from omnigraph.storage.mapped import OF_GRAPH, MappedFiles

NAME: Final = "statistics"
FORMAT: Final = 1


class KeptStatistics:
    """The statistics of one open graph. Safe to share among threads."""

    def __init__(self, mapped: MappedFiles | None) -> None:
        self._mapped = mapped
        self._read: tuple[object, Statistics] | None = None
        """The statistics, and the time and size of their file."""
        self._seen: object = None

    def at(self, moment: object) -> Statistics:
        """The statistics at a moment, which is any object; the file is looked at once for each."""
        held = self._read
        if held is not None and self._seen is moment:
            return held[1]
        stamp = None if self._mapped is None else self._mapped.stamp(OF_GRAPH, NAME)
        if held is None or held[0] != stamp:
            found = None if stamp is None or self._mapped is None else read(self._mapped)
            held = self._read = stamp, UNKNOWN if found is None else found[1]
        self._seen = moment
        return held[1]


def read(mapped: MappedFiles) -> tuple[str, Statistics] | None:
    """What the statistics were made of, and these; None if there are none that can be read."""
    try:
        arrays = mapped.read(OF_GRAPH, NAME) or {}
        document = read_json(str(arrays[NAME][0]))
        if document["format"] != FORMAT:
            return None
        return str(document["made_of"]), _decode(document)
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def write(mapped: MappedFiles, made_of: str, statistics: Statistics) -> None:
    document = {"format": FORMAT, "made_of": made_of, **_encode(statistics)}
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    mapped.write(OF_GRAPH, NAME, {NAME: pa.array([text])})


def _encode(statistics: Statistics) -> dict[str, list[list[object]]]:
    degrees = statistics.degrees.items()
    pulls = statistics.pulls.items()
    values = statistics.values.items()
    return {
        "degrees": [[*_spell(way), each.mean, each.most] for way, each in degrees],
        "pulls": [[*_spell(one), *_spell(other), pull] for (one, other), pull in pulls],
        "values": [
            [kind, name, each.distinct, each.nulls, list(each.bounds)]
            for (kind, name), each in values
        ],
    }


def _spell(departure: Departure) -> tuple[str, str]:
    return departure.edge, str(departure.direction)


def _decode(document: Mapping[str, Any]) -> Statistics:
    return Statistics(
        dict(_each(document["degrees"], _degrees)),
        dict(_each(document["pulls"], _pull)),
        dict(_each(document["values"], _values)),
    )


def _each(rows: list[list[Any]], decode: Callable[..., Any]) -> Iterator[Any]:
    return (decode(*row) for row in rows)


def _degrees(edge: str, way: str, mean: float, most: int) -> tuple[Departure, Degrees]:
    return Departure(edge, Direction(way)), Degrees(float(mean), int(most))


def _pull(
    edge: str, way: str, other: str, back: str, pull: float
) -> tuple[tuple[Departure, Departure], float]:
    return (Departure(edge, Direction(way)), Departure(other, Direction(back))), float(pull)


def _values(
    kind: str, name: str, distinct: int, nulls: float, bounds: list[Any]
) -> tuple[tuple[str, str], Values]:
    if any(isinstance(each, str) != isinstance(bounds[0], str) for each in bounds):
        raise ValueError("bounds of several types")
    return (kind, name), Values(int(distinct), float(nulls), tuple(bounds))
