"""The codes of syntax errors in `.gq`. The compiler checks the meaning of a query."""

from enum import StrEnum
from typing import Self


class SyntaxRule(StrEnum):
    """Codes are append-only. Each has a golden case."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        rule = str.__new__(cls, code)
        rule._value_ = code
        rule.meaning = meaning
        return rule

    UNEXPECTED = "P1", "The text does not follow the grammar here."
    ESCAPE = "P2", r"A string holds an escape other than `\"` `\\` `\n` `\r` `\t`."
    QUERY_REPEATED = "P3", "Two queries of one file have one name."
    PARAMETER_REPEATED = "P4", "Two parameters of one query have one name."
    ANNOTATION = "P5", "An annotation of a query is repeated, or empty."
    NUMBER = "P6", "A number fits neither a 64-bit integer nor a finite 64-bit float."
    NESTING = "P7", "Blocks, conditions, calls or lists are nested too deeply."
    UNCLOSED = "P8", "A string or a comment is never closed."
    SIZE = "P9", "A text has too many words and signs, or a query too many clauses."
