"""The grammar of the reference's schema language, as its specification gives it.

It is transcribed rule by rule, apart from our own grammar, and answers one question: would the
reference refuse this text? Of its checks behind the grammar only those on edges are here, because
only edges carry what we have added.
"""

from functools import cache
from typing import Final

from lark import Lark, Token, Tree
from lark.exceptions import LarkError

_GRAMMAR: Final = r"""
start: (interface | node | edge)*
interface: "interface" TYPENAME "{" property* "}"
node: "node" TYPENAME annotation* implements? "{" (property | constraint)* "}"
implements: "implements" TYPENAME ("," TYPENAME)*
edge: "edge" TYPENAME ":" TYPENAME "->" TYPENAME card? annotation* edge_body?
edge_body: "{" (property | constraint)* "}"
card: "@card" "(" INT ".." INT? ")"
property: IDENT ":" type annotation*
type: core "?"?
core: "[" BASE "]" | "enum" "(" ENUMVAL ("," ENUMVAL)* ")" | "Vector" "(" INT ")" | BASE
BASE: "String" | "Blob" | "Bool" | "DateTime" | "Date" | NUMBER
NUMBER: "I32" | "I64" | "U32" | "U64" | "F32" | "F64"
ENUMVAL: /[A-Za-z0-9_-]+/
constraint: "@" CONSTRAINT "(" carg ("," carg)* ")"
CONSTRAINT: "key" | "unique" | "index" | "range" | "check"
carg: range | literal | IDENT
range: signed ".." signed? | ".." signed
signed: /-?[0-9]+\.[0-9]+/ | /-?[0-9]+/
annotation: "@" ANNOTATION ("(" annarg ("," IDENT "=" literal)* ")")?
ANNOTATION: /(?!(key|unique|index|range|check)\s*\()[a-z_][A-Za-z0-9_]*/
annarg: literal | IDENT
literal: STRING | FLOAT | INT | BOOL
IDENT: /[a-z_][A-Za-z0-9_]*/
TYPENAME: /[A-Z][A-Za-z0-9_]*/
INT: /[0-9]+/
FLOAT: /[0-9]+\.[0-9]+/
BOOL: "true" | "false"
STRING: /"(\\.|[^"\\])*"/s
%ignore /[ \t\r\n]+/
%ignore /\/\/[^\n]*/
%ignore /\/\*(.|\n)*?\*\//
"""

_NOT_ON_EDGES: Final = frozenset({"key", "range", "check"})
KNOWN_IR_VERSION: Final = 1


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="earley", lexer="dynamic")


def find_refusal(text: str) -> str | None:
    """Why the reference would refuse to parse this schema; None if it would accept it."""
    try:
        tree = _parser().parse(text)
    except LarkError as error:
        return f"syntax: {error}"
    for body in tree.find_data("edge_body"):
        for constraint in body.find_data("constraint"):
            assert isinstance(constraint, Tree)
            name = next(each for each in constraint.children if isinstance(each, Token))
            if str(name) in _NOT_ON_EDGES:
                return f"@{name} on an edge"
    return None
