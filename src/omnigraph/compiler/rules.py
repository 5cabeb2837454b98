"""Every rule a query can break, by code.

T1 to T24 are numbered by the language and keep their numbers. U1 and up are ours: rules that the
language states without numbering them, or that its extensions need. E1 and up are about
expressions, V1 and up about variables of several types. D2 is the one rule about a mutation as a
whole. Codes are append-only. Each has a golden case and a line in the documentation; tests compare
both with this list.
"""

from enum import StrEnum
from typing import Self


class QueryRule(StrEnum):
    """What a diagnostic's `code` may be."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        rule = str.__new__(cls, code)
        rule._value_ = code
        rule.meaning = meaning
        return rule

    T1 = "T1", "A binding names a type that is not a node type."
    T2 = "T2", "An inline match names a property that the type does not have."
    T3 = "T3", "A literal is not a value that the property can hold."
    T4 = "T4", "A traversal names an edge type that does not exist."
    T5 = "T5", "An end of a traversal has a type that the edge does not connect."
    T6 = "T6", "`$x.p` reads a variable that is not bound, or a property that it does not have."
    T7 = "T7", "Two values that are compared or assigned do not go together."
    T8 = "T8", "An aggregate is applied to a value that it cannot aggregate."
    T9 = "T9", "A negation mentions no outer variable; or beside an aggregate stands no group key."
    T10 = "T10", "A mutation names an unknown type, or assigns nothing."
    T11 = "T11", "A mutation names an unknown property, or filters by a Blob."
    T12 = "T12", "An insert leaves out a required property or an endpoint."
    T13 = "T13", "A property is assigned twice."
    T14 = "T14", "A mutation uses a `$x` that is not a declared parameter."
    T15 = "T15", "Hop bounds are out of order, or `nearest` got a wrong operand."
    T16 = "T16", "Edges cannot be updated."
    T17 = "T17", "Ordering by `nearest` needs a limit."
    T18 = "T18", "Ordering by `nearest` does not mix with ordering by an alias."
    T19 = "T19", "`search` and `fuzzy` take Strings, and `fuzzy` an integer number of edits."
    T20 = "T20", "`match_text` and `bm25` take Strings."
    T21 = (
        "T21",
        "`rrf` fuses two rankings of one variable, with a positive integer k, and needs a limit.",
    )
    T22 = "T22", "An undirected traversal needs an edge whose two ends have one type."
    T23 = "T23", "An edge variable is used as if it were a node, reused, or combined with hops."
    T24 = "T24", "A Blob cannot be read as a value."

    U1 = "U1", "A parameter has a reserved name."
    U2 = "U2", "A parameter has a type that no parameter can have."
    U3 = "U3", "A variable is bound again, to another type."
    U4 = "U4", "`$x` is neither a declared parameter nor a variable bound above."
    U5 = "U5", "The elements of a list literal are not values of one type."
    U6 = "U6", "Nothing in a connected part of the pattern is bound to a type."
    U7 = "U7", "Two columns of the result have one name."
    U8 = "U8", "A bare word is not an alias that can be used there."
    U9 = "U9", "A rank function stands where it cannot rank."
    U10 = "U10", "A full-text function stands where it cannot filter."
    U11 = "U11", "A comparison with null is never true."
    U12 = "U12", "An aggregate stands where there is no group."
    U13 = "U13", "The text of a date or datetime literal is not one."
    U14 = "U14", "`limit` and `offset` take a count: an integer from zero up, never null."
    U15 = "U15", "The result cannot be ordered by that."
    U16 = "U16", "An optional block mentions no variable from outside."
    U17 = "U17", "A variable of a `not` or `optional` block is bound again outside, further down."
    U18 = "U18", "The key of a node cannot be updated."
    U19 = "U19", "`having` stands without an aggregate, or reads what is not returned."
    U20 = "U20", "The parts of a union do not have the same columns."
    U21 = "U21", "A path is bound or used where it cannot be."
    U22 = "U22", "`with` renames a node or an edge, or hands on a value without a name."
    U23 = "U23", "The weight of a path is no number of its edges, or a cost is read without one."

    E1 = "E1", "A function does not exist, or takes another number of values."
    E2 = "E2", "An operator or a function does not take such a value."
    E3 = "E3", "The values that one expression chooses from have no type in common."
    E4 = "E4", "An expression of constants has no value, as a division by zero."
    E5 = "E5", "The pattern of `matches` is not one, or is not the same for every row."

    V1 = "V1", "A property is read of several types, and they do not all have it with one type."
    V2 = "V2", "A full-text or rank function needs a variable of one node type."

    D2 = "D2", "A mutation both writes and deletes."
