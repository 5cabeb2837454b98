"""How a schema spells a property, and how its column is called.

A property is called like its column, with one exception: the column `id` of every table holds the
system's id, so a property `id` is stored as `_p_id`. Beside such a property the system's id is
spelt `@id`. Within the program a property has the name of its column. Names of users become columns
by `column_of`, and columns become names for users by `spelling_of`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

ID: Final = "id"
"""The column of the system's id, and the name of a property that is stored elsewhere."""

SYSTEM_ID: Final = "@id"
"""The system's id, where `id` may be a property."""

ID_PROPERTY: Final = "_p_id"
"""The column of a property that is called `id`. No property may be declared with this name."""


def column_of(name: str) -> str:
    """The column that stores a property."""
    return ID_PROPERTY if name == ID else name


def spelling_of(column: str) -> str:
    """The name of a property as the schema declares it."""
    return ID if column == ID_PROPERTY else column


def spell_all(columns: Iterable[str]) -> str:
    """Names for a message, with commas."""
    return ", ".join(map(spelling_of, columns))


def spell_group(columns: Sequence[str]) -> str:
    """The columns of a key or of a unique constraint: `a`, or `(a, b)`."""
    return spelling_of(columns[0]) if len(columns) == 1 else f"({spell_all(columns)})"


def name_beside_id(type_name: str, column: str) -> str:
    """A property where the column `id` is the system's and keeps its name: `Person_id`."""
    return f"{type_name}_{ID}" if column == ID_PROPERTY else column
