"""The rules a text breaks by not being `.gq` at all. What a query means is judged elsewhere."""

from enum import StrEnum


class Rule(StrEnum):
    """Codes are append-only; each has a golden case."""

    UNEXPECTED = "P1"
    ESCAPE = "P2"
    QUERY_REPEATED = "P3"
    PARAMETER_REPEATED = "P4"
    ANNOTATION = "P5"
    NUMBER = "P6"
    NESTING = "P7"
    UNCLOSED = "P8"


MEANINGS: dict[Rule, str] = {
    Rule.UNEXPECTED: "the text does not follow the grammar here",
    Rule.ESCAPE: r"a string holds an escape other than \" \\ \n \r \t",
    Rule.QUERY_REPEATED: "two queries of one file have the same name",
    Rule.PARAMETER_REPEATED: "two parameters of one query have the same name",
    Rule.ANNOTATION: "a query's annotation is repeated or empty",
    Rule.NUMBER: "a number fits neither a 64-bit integer nor a finite 64-bit float",
    Rule.NESTING: "blocks, conditions, calls or lists are nested too deeply",
    Rule.UNCLOSED: "a string or a comment is never closed",
}
