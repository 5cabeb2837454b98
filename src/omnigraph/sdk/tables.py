"""What the rows of a table are, as flags of a command and parameters of a route spell it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from omnigraph.engine.load.inputs import Format, Input
from omnigraph.errors import UsageError

_TAB: Final = {"\\t": "\t", "tab": "\t"}
"""A tab is hard to type in a shell."""

NONE: Final = "none"
_MAY_BE_EMPTY: Final = "const"


def read_table(
    *,
    type: str | None = None,  # noqa: A002 - as the schema calls it
    edge: str | None = None,
    map: Sequence[str] = (),  # noqa: A002 - as the flag is called
    format: str | None = None,  # noqa: A002 - as above
    delimiter: str | None = None,
    null: str = "",
    header: str | None = None,
    skip: int = 0,
    quote: str | None = None,
    const: Sequence[str] = (),
    pattern: Sequence[str] = (),
    lookup: Sequence[str] = (),
    prefix: str = "",
) -> Input:
    """The description of a table, without its data; messages put the prefix before a name.

    Raises UsageError.
    """
    if quote not in (None, NONE):
        raise UsageError(f"{prefix}quote is {NONE}, or left out; not '{quote}'")
    return Input(
        None,
        type=type,
        edge=edge,
        mapping=_read_pairs(map, f"{prefix}map", "PROPERTY=COLUMN"),
        format=_read_format(format),
        delimiter=_TAB.get(delimiter or "", delimiter),
        null=null,
        header=_read_header(header),
        skip=skip,
        is_quoted=quote is None,
        constants=_read_pairs(const, f"{prefix}{_MAY_BE_EMPTY}", "PROPERTY=VALUE"),
        patterns=_read_pairs(pattern, f"{prefix}pattern", "PROPERTY=PATTERN"),
        lookups=_read_pairs(lookup, f"{prefix}lookup", "from=TYPE.PROPERTY"),
    )


def spell_table(table: Input) -> dict[str, object]:
    """The parameters that `read_table` reads. Raises UsageError."""
    if table.options or table.files or table.are_texts:
        raise UsageError("only files of this machine and tables in memory can be sent to a server")
    header = None if table.header is None else ",".join(table.header) or NONE
    if table.header is not None and _read_header(header) != table.header:
        raise UsageError("a column whose name has a comma cannot be sent to a server")
    return {
        "type": table.type,
        "edge": table.edge,
        "map": _spell_pairs(table.mapping),
        "format": table.format,
        "delimiter": table.delimiter,
        "null": table.null or None,
        "header": header,
        "skip": table.skip or None,
        "quote": None if table.is_quoted else NONE,
        "const": _spell_pairs(table.constants),
        "pattern": _spell_pairs(table.patterns),
        "lookup": _spell_pairs(table.lookups),
    }


def find_table(inputs: Sequence[Input]) -> Input:
    """What several inputs say alike of their rows. Raises UsageError."""
    first, *others = (replace(each, data=None) for each in inputs)
    if any(each != first for each in others):
        raise UsageError("files of different tables go to a server in loads of their own")
    return first


def _read_pairs(given: Sequence[str], name: str, form: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in given:
        target, equals, text = each.partition("=")
        if not equals or not target or (not text and not name.endswith(_MAY_BE_EMPTY)):
            raise UsageError(f"{name} is {form}, not '{each}'")
        if target in pairs:
            raise UsageError(f"{name} names '{target}' twice")
        pairs[target] = text
    return pairs


def _spell_pairs(pairs: Mapping[str, str]) -> list[str]:
    return [f"{target}={text}" for target, text in pairs.items()]


def _read_header(given: str | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    return () if given == NONE else tuple(given.split(","))


def _read_format(given: str | None) -> Format | None:
    if given is None:
        return None
    try:
        return Format(given)
    except ValueError:
        raise UsageError(f"a format is one of {', '.join(Format)}, not '{given}'") from None
