"""Readable names for what the grammar expects, and hints for common mistakes in `.gq`.

A hint is chosen by the unexpected text, the text before it, and the expected tokens. The first row
of the table that matches all three is shown.
"""

import re
from dataclasses import dataclass

from omnigraph.lang.query.rules import SyntaxRule
from omnigraph.lang.syntax import Dialect, SyntaxFault, Unexpected, close_match

CLAUSE = "a clause"
EXPRESSION = "an expression"
VALUE = "a value"
NAME = "a name"
EDGE = "an edge"
TYPE = "a type"
OPERATOR = "an operator"
VARIABLE = "a variable"

KEYWORDS = frozenset(
    {
        *(
            "QUERY",
            "MATCH",
            "RETURN",
            "ORDER",
            "LIMIT",
            "OFFSET",
            "OPTIONAL",
            "EXISTS",
            "AS",
            "ASC",
        ),
        *(
            "DESC",
            "AND",
            "OR",
            "NULL",
            "NOW",
            "NEAREST",
            "SEARCH",
            "MATCH_TEXT",
            "FUZZY",
            "BM25",
            "RRF",
        ),
        *("COUNT", "SUM", "AVG", "MIN", "MAX", "DISTINCT", "DATE", "DATETIME"),
        *("COLLECT", "STDDEV", "PERCENTILE", "UNION", "ALL", "SHORTEST", "BY", "WITH"),
        *("INSERT", "UPDATE", "DELETE", "SET", "WHERE"),
        *("CASE", "WHEN", "THEN", "ELSE", "END", "HAVING"),
    }
)
_WORD_OPERATORS = frozenset({"CONTAINS", "STARTS_WITH", "IN", "IS"})
_BOOLEANS = frozenset({"TRUE", "FALSE"})
_NUMBERS = frozenset({"INT", "FLOAT", "NEGATIVE_INT", "NEGATIVE_FLOAT"})
_LITERALS = _NUMBERS | _BOOLEANS | {"STRING", "DATE", "DATETIME", "LSQB"}
_EDGES = KEYWORDS | _WORD_OPERATORS | _BOOLEANS | {"NAME"}
_NAMES = _EDGES | {"NOT"}
_EXPRESSIONS = _NAMES | _LITERALS | {"VARIABLE"}
_SYMBOLS = frozenset({"EQUAL", "NOT_EQUAL", "AT_MOST", "AT_LEAST", "LESSTHAN", "MORETHAN"})
_ARITHMETIC = frozenset({"PLUS", "MINUS", "STAR", "SLASH", "PERCENT"})

_GROUPS = (
    # After a value: it may go on, or the next one follows.
    (_EXPRESSIONS | _ARITHMETIC | {"LPAR", "COMMA"}, EXPRESSION),
    (_EXPRESSIONS | _ARITHMETIC | {"LPAR"}, CLAUSE),
    (_EXPRESSIONS | {"LPAR", "MINUS"}, EXPRESSION),
    (_EXPRESSIONS | {"LPAR"}, CLAUSE),
    (_LITERALS | {"VARIABLE", "NOW", "NULL", "LBRACE"}, VALUE),
    (_LITERALS | {"VARIABLE", "NOW", "NULL"}, VALUE),
    (_LITERALS, "a literal"),
    (_NAMES, NAME),
    (_EDGES, EDGE),
    (_SYMBOLS | _ARITHMETIC, OPERATOR),
    (_SYMBOLS, "a comparison operator"),
)

_WORDS = {
    "QUERY": "'query'",
    "MATCH": "'match'",
    "RETURN": "'return'",
    "INSERT": "'insert'",
    "UPDATE": "'update'",
    "DELETE": "'delete'",
    "SET": "'set'",
    "WHERE": "'where'",
    "HAVING": "'having'",
    "UNION": "'union'",
    "WITH": "'with'",
    "ALL": "'all'",
    "ORDER": "'order'",
    "LIMIT": "'limit'",
    "OFFSET": "'offset'",
    "NEAREST": "'nearest'",
    "BM25": "'bm25'",
    "CONTAINS": "'contains'",
    "STARTS_WITH": "'starts_with'",
    "IN": "'in'",
    "IS": "'is'",
    "NULL": "'null'",
    "NOT": "'not'",
    "AS": "'as'",
    "BY": "'by'",
    "AND": "'and'",
    "OR": "'or'",
    "ASC": "'asc'",
    "DESC": "'desc'",
    "WHEN": "'when'",
    "THEN": "'then'",
    "ELSE": "'else'",
    "END": "'end'",
    "DESCRIPTION": "'@description'",
    "INSTRUCTION": "'@instruction'",
    "SYSTEM_NAME": NAME,
    "TYPE_NAME": TYPE,
    "VECTOR": TYPE,
    "VARIABLE": VARIABLE,
    "STRING": "a string",
    "INT": "a whole number",
    "LESSTHAN": "'<'",
    "MORETHAN": "'>'",
    "COMMA": "','",
    "COLON": "':'",
    "VBAR": "'|'",
    "DOT": "'.'",
    "QMARK": "'?'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
}


@dataclass(frozen=True, slots=True)
class _Mistake:
    hint: str
    found: str = ""
    """A regular expression for the whole unexpected text."""
    before: str = ""
    """A regular expression for the end of the text before it."""
    expected: str = ""

    def fits(self, unexpected: Unexpected) -> bool:
        tail = unexpected.before[-_TAIL_MAX:].rstrip()
        return (
            (not self.found or re.fullmatch(self.found, unexpected.found) is not None)
            and (not self.before or re.search(rf"(?:{self.before})\Z", tail) is not None)
            and (not self.expected or self.expected in unexpected.expected)
        )


_TAIL_MAX = 200

_SECTIONS = (
    "the sections of a read stand in this order: match, return, having, order, limit, offset"
)
_EITHER = "a query either reads or changes; split it in two"

_MISTAKES = (
    # Characters that the language does not have.
    _Mistake("strings stand in double quotes", found="'"),
    _Mistake("nothing separates queries or clauses; leave the ';' out", found=";"),
    _Mistake("comments begin with '//' or stand between '/*' and '*/'", found="#"),
    _Mistake("write 'and'", found="&"),
    _Mistake("write 'or'", found=r"\|"),
    _Mistake("to count rows, count a variable: count($x)", found=r"\*", before=r"count\s*\("),
    _Mistake(
        'a query may have @description("…") and @instruction("…"), before its \'{\'', found="@"
    ),
    _Mistake("a traversal is written $a edge $b", found="-"),
    _Mistake("a traversal is written $a edge $b", found=">", before="-"),
    _Mistake("a traversal is written $a edge $b", found=":", before=r"-\s*\["),
    # Operators of other languages.
    _Mistake("one '=' compares", found="=", before="="),
    _Mistake("write '!='", found=">", before="<"),
    _Mistake("write '!='", found="!|~"),
    _Mistake("write 'contains' or 'starts_with'", found="(?i:like|ilike|matches)"),
    _Mistake("a list stands in brackets: [1, 2]", found=",", before=r"\bin\s*\([^()]*"),
    # Numbers and names.
    _Mistake("numbers have no exponent; write the digits out", found=r"[0-9]+[eE][0-9]*"),
    _Mistake("separate the number from the word", found="[0-9]+[A-Za-z_].*"),
    _Mistake("a decimal number has digits on both sides of its point", found=r"\.", before="[0-9]"),
    _Mistake("a decimal number has digits on both sides of its point", found=r"\.", expected=VALUE),
    _Mistake(
        "a decimal number has digits on both sides of its point", found=r"\.", expected=EXPRESSION
    ),
    _Mistake("the name of a variable begins with a lower-case letter or '_'", found=r"\$[A-Z].*"),
    _Mistake("after '$' stands the name of a variable", found=r"\$[0-9]*"),
    _Mistake(
        "the name of a type begins with an upper-case letter", found="[a-z_].*", expected=TYPE
    ),
    # Negation, and words that join clauses.
    _Mistake("negation stands in braces: not { … }", found=r"\$.*|\(", before=r"\bnot"),
    _Mistake(
        "an edge cannot be called 'not'; negation is written not { … }",
        found="not",
        before=r"\$\w+",
    ),
    _Mistake("what exists stands in braces: exists { … }", found=r"\$.*|\(", before=r"\bexists"),
    _Mistake(
        "an optional part stands in braces: optional { … }", found=r"\$.*|\(", before=r"\boptional"
    ),
    _Mistake(
        "'and' joins conditions; other clauses just follow each other",
        before=r"\band",
        expected=OPERATOR,
    ),
    _Mistake(
        "'or' joins conditions only; put parentheses around a condition between two variables, such"
        " as ($list contains $item)",
        before=r"\bor",
        expected=OPERATOR,
    ),
    # Empty braces.
    _Mistake(
        "leave the braces out when a binding matches nothing",
        found=r"\}",
        before=r"\$\w+\s*:\s*\w+\s*\{",
    ),
    _Mistake("these braces cannot be empty", found=r"\}", before=r"\{"),
    # Commas.
    _Mistake("orderings are separated by commas", expected="'asc'"),
    _Mistake(
        "'nearest' puts the closest first and takes neither 'asc' nor 'desc'", found="asc|desc"
    ),
    _Mistake(
        "property matches are separated by commas",
        found="[a-z_].*",
        before=r":\s*[^\s:]+",
        expected="','",
    ),
    _Mistake("parameters are separated by commas", found=r"\$.*", expected="','"),
    # Bounds and comparisons.
    _Mistake("hops have two bounds: {2,2}", found=r"\}", before=r"\{\s*[0-9]+"),
    _Mistake(
        "a mutation compares with = != < <= > >= only",
        found="contains|starts_with|in|is",
        before=r"\bwhere\s+\w+",
    ),
    # Sections and statements.
    _Mistake(
        "parentheses follow the name of a query, even if it has no parameters",
        found=r"\{|@",
        expected="'('",
    ),
    _Mistake("a vector type names its dimension: Vector(3)", before=r"\bVector", expected="'('"),
    _Mistake("conditions stand inside of match { … }", found="(?i:where)"),
    _Mistake(
        "grouping is implied: what is returned beside an aggregate is the group",
        found="(?i:group)",
    ),
    _Mistake(
        "a mutation's 'where' holds exactly one comparison", found="and|or", expected="'insert'"
    ),
    _Mistake(_SECTIONS, found="return|having|order|limit|offset", expected="'match'"),
    _Mistake(
        "close the block before this section with '}'",
        found=r"\{",
        before=r"\b(return|having|order)",
    ),
    _Mistake("there is one '}' too many before this", found=r"\}", expected="'query'"),
    _Mistake(_EITHER, found="match|return", expected="'insert'"),
    _Mistake(_EITHER, found="insert|update|delete"),
    _Mistake(_SECTIONS, found="match|return|having|order|limit|offset"),
    _Mistake(
        "a file holds queries: query name($parameter: Type) { match { … } return { … } }",
        found="(?i:select|match|create|with|from|insert|update|delete|merge)",
        expected="'query'",
    ),
    _Mistake(
        "names of properties, edges and aliases begin with a lower-case letter or '_'",
        found="[A-Z].*",
        expected=NAME,
    ),
    _Mistake(
        "edges are named with a lower-case first letter in a query", found="[A-Z].*", expected=EDGE
    ),
)


def _hint(unexpected: Unexpected) -> str | None:
    found = unexpected.found
    keywords = {phrase.strip("'") for phrase in unexpected.expected if phrase[1:2].isalpha()}
    if found.lower() in keywords:
        return "keywords are written in lower case"
    for keyword in keywords:
        if re.fullmatch(rf"{keyword}[0-9]+", found):
            return f"write '{keyword} {found.removeprefix(keyword)}'"
    if not found and "'}'" in unexpected.expected:
        return "a '{' before this is never closed"
    for mistake in _MISTAKES:
        if mistake.fits(unexpected):
            return mistake.hint
    return close_match(found.lower(), keywords)


# Atomic, as everywhere below: a gap is read one way only, however long the text that follows fails.
_GAP = r"(?>\s|//[^\n]*|/\*(?s:.*?)\*/)"

DIALECT = Dialect(
    codes={
        SyntaxFault.UNEXPECTED: SyntaxRule.UNEXPECTED,
        SyntaxFault.ENCODING: SyntaxRule.UNEXPECTED,
        SyntaxFault.OPEN_COMMENT: SyntaxRule.UNCLOSED,
        SyntaxFault.OPEN_STRING: SyntaxRule.UNCLOSED,
        SyntaxFault.ESCAPE: SyntaxRule.ESCAPE,
        SyntaxFault.NUMBER: SyntaxRule.NUMBER,
    },
    words=_WORDS,
    groups=_GROUPS,
    # `query` may also be a name, and the query before may never have been closed. So a query begins
    # where a line or another query's brace is followed by it and a name, or with a whole head:
    # `return { query count($x) }` has no ':' after its variable.
    declaration=(
        rf"(?:(?<![^\n])|(?<=\}})|(?<=\}} ))query{_GAP}++[a-z_]"
        rf"|(?<![A-Za-z0-9_$])query{_GAP}++[a-z_][A-Za-z0-9_]*+{_GAP}*+\({_GAP}*+"
        rf"(?:\){_GAP}*+[@{{]|\$[a-z_][A-Za-z0-9_]*+{_GAP}*+:)"
    ),
    hint=_hint,
)
