"""The rules that a schema can break, grouped by the pass that checks them.

A code, once published, keeps its meaning. The letter is the pass: S syntax, D declarations,
I interfaces, A annotations, C constraints, K the catalog of types, R the canonical form. The parser
reports S and D4 without importing this list; the golden tests compare the two.
"""

from enum import StrEnum
from typing import Final, Self

PARSE: Final = "parse error"
CATALOG: Final = "catalog error"


class SchemaRule(StrEnum):
    """A code, and its meaning in one line."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        rule = str.__new__(cls, code)
        rule._value_ = code
        rule.meaning = meaning
        return rule

    S1 = "S1", "the text does not follow the grammar"
    S2 = "S2", "a block comment is never closed"
    S3 = "S3", "a string is never closed"
    S4 = "S4", "not a property type, or not one that a list can hold"
    S5 = "S5", "an annotation or a constraint stands where it may not"
    S6 = "S6", "the parentheses of an annotation hold what they may not"
    S7 = "S7", "a number is too long, or too large for a 64-bit float"
    S8 = "S8", "the text holds half of a surrogate pair"

    D1 = "D1", "the dimension of a vector is not between 1 and 2147483647"
    D2 = "D2", "a list of Blob"
    D3 = "D3", "a value stands twice in an enum"
    D4 = "D4", "a string holds an escape sequence the language does not have"
    D5 = "D5", "a bound of @card is larger than 4294967295"
    D6 = "D6", "the smallest number of @card is larger than its largest"
    D7 = "D7", "a constraint has arguments of the wrong shape"
    D8 = "D8", "a property of an edge is called src, dst, from or to"
    D9 = "D9", "a property has a name that the storage keeps for itself"

    I1 = "I1", "a node implements an interface that is not declared"
    I2 = "I2", "a property has another type than the interface gives it"
    I3 = "I3", "two interfaces give a property different annotations"

    A1 = "A1", "@key, @unique, @index, @embed or @default on the header of a node or an edge"
    A2 = "A2", "@description or @instruction without a text"
    A3 = "A3", "@description or @instruction is repeated"
    A4 = "A4", "@instruction on a property"
    A5 = "A5", "@key, @unique, @index or @embed on a list"
    A6 = "A6", "@key or @unique on a vector"
    A7 = "A7", "@key, @unique, @index or @embed on a Blob"
    A8 = "A8", "@key or @embed on a property of an edge"
    A9 = "A9", "@key, @unique or @index is repeated on one property"
    A10 = "A10", "@embed is repeated on one property"
    A11 = "A11", "@embed on a property that is not a vector"
    A12 = "A12", "@embed does not name a String property of its node"
    A13 = "A13", "@embed has a keyword other than model"
    A14 = "A14", "a keyword is given twice in one annotation"
    A15 = "A15", "@rename_from is repeated"
    A16 = "A16", "@rename_from without an old name, or with keywords"
    A17 = "A17", "@default is repeated, has no literal, or has keywords"
    A18 = "A18", "@default on a list, a vector or a Blob"
    A19 = "A19", "@default is not a value the property accepts"

    C1 = "C1", "@range or @check on an edge"
    C2 = "C2", "a second @key on one type"
    C3 = "C3", "a constraint names a property that the type does not have"
    C4 = "C4", "a member of a key is nullable, a list, a vector or a Blob"
    C5 = "C5", "@index on a Blob"
    C6 = "C6", "@unique on a list, a vector or a Blob"
    C7 = "C7", "@range on a property that is not a number"
    C8 = "C8", "@check on a property that is not a String"
    C9 = "C9", "the pattern of @check is not a regular expression of the accepted dialect"
    C10 = "C10", "the lower bound of @range is above the upper one"
    C11 = "C11", "a whole bound of @range does not fit in 64 bits with a sign"
    C12 = "C12", "a constraint names a property twice"
    C13 = "C13", "the pattern of @check is too large"
    C14 = "C14", "the key of an edge does not name src and dst"
    C15 = "C15", "@unique of an edge would compare edges of several pairs of ends"

    K1 = "K1", "two nodes have one name"
    K2 = "K2", "two edges have one name"
    K3 = "K3", "an edge starts or ends at a node that is not declared"
    K4 = "K4", "the names of two edges differ only in case"
    K5 = "K5", "an edge names one type twice at one end"

    R1 = "R1", "two interfaces have one name"
    R2 = "R2", "a property is declared twice in one type"
    R3 = "R3", "the names of two types have the same 32-bit id"
    R4 = "R4", "the names of two properties of a type have the same 32-bit id"

    @property
    def family(self) -> str:
        """The prefix of the message."""
        return CATALOG if self.value[0] in "KR" else PARSE
