r"""The patterns of `@check`: the dialect of the Rust `regex` crate, run by Python's `re`.

A pattern is read by the rules of the one and written out again for the other, so that it finds the
same values. Nothing is passed through: `$` is the very end of a value (Python's also stands before
a last newline), `\w`, `\s`, `\b`, classes and their set operations mean what Rust means, flags
hold to the end of their group, `(?i)` is simple case folding.

Refused, because the dialect has no such thing: look-around, back-references, atomic groups,
conditionals, possessive and other doubled repetitions, comments `(?#…)`, octal escapes, `\Z`.
Refused, though the dialect has it: scripts and other `\p{…}` besides general categories, the flags
`R` and `-u`, repeating an anchor, counts above 1,000, more than 100 nested groups, and more than
about a hundred large classes such as `\w`.

One difference stays. Rust's matcher takes time linear in the value; `re` tries alternatives one by
one, and a repetition inside a repetition over the same characters, as in `(a+)+$`, may take
exponential time on a value chosen to defeat it.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from omnigraph.catalog import charset
from omnigraph.catalog.charset import CharSet

COUNT_MAX: Final = 1_000
NESTING_MAX: Final = 100
LENGTH_MAX: Final = 1_000_000
"""Of the translation, in characters; each word class takes 10,000. Rust has a limit of its own."""

_CONTROL: Final = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}
_GROUP_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]]*")
_REFUSED_GROUPS: Final = {
    "?=": "look-ahead is not supported",
    "?!": "look-ahead is not supported",
    "?<=": "look-behind is not supported",
    "?<!": "look-behind is not supported",
    "?>": "atomic groups are not supported",
    "?(": "conditionals are not supported",
    "?#": "comments in groups are not supported",
    "?P=": "back-references are not supported",
    "?P>": "recursion is not supported",
    "?R": "the flag R, and recursion, are not supported",
    "?&": "recursion is not supported",
    "?|": "branch reset is not supported",
}


class PatternInvalid(Exception):  # named for the fact
    """A pattern is not of the accepted dialect."""

    def __init__(self, reason: str, at: int) -> None:
        self.reason = reason
        self.at = at
        super().__init__(f"{reason}, at character {at + 1}")


@lru_cache(maxsize=1_024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to `search` values with. Raises `PatternInvalid`."""
    try:
        return re.compile(translate(pattern))
    except (re.error, RecursionError, OverflowError) as failure:
        raise PatternInvalid(f"the pattern is too complex ({failure})", 0) from failure


def translate(pattern: str) -> str:
    """The pattern in Python's syntax. Raises `PatternInvalid`."""
    translated = _Translator(pattern).whole()
    if len(translated) > LENGTH_MAX:
        raise PatternInvalid("the pattern has too many or too large classes", 0)
    return translated


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    swap_greed: bool = False
    verbose: bool = False

    def set(self, letter: str, *, on: bool) -> "_Flags | None":
        match letter:
            case "i":
                return replace(self, ignore_case=on)
            case "m":
                return replace(self, multi_line=on)
            case "s":
                return replace(self, dot_all=on)
            case "U":
                return replace(self, swap_greed=on)
            case "x":
                return replace(self, verbose=on)
            case "u" if on:
                return self
            case _:
                return None


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._flags = _Flags()
        self._group_names: set[str] = set()

    def whole(self) -> str:
        written = self._alternation()
        if self._at < len(self._pattern):
            raise self._error("a ')' closes nothing")
        return written

    # ── reading ──────────────────────────────────────────────────────────────────────────────────

    def _error(self, reason: str, at: int | None = None) -> PatternInvalid:
        return PatternInvalid(reason, self._at if at is None else at)

    def _peek(self, length: int = 1) -> str:
        return self._pattern[self._at : self._at + length]

    def _take(self) -> str:
        taken = self._peek()
        self._at += 1
        return taken

    def _accept(self, text: str) -> bool:
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _until(self, closing: str, what: str) -> str:
        end = self._pattern.find(closing, self._at)
        if end < 0:
            raise self._error(f"{what} is never closed")
        text = self._pattern[self._at : end]
        self._at = end + len(closing)
        return text

    def _skip_verbose(self) -> None:
        """Under the flag x, white space and comments stand for nothing."""
        while self._flags.verbose and self._peek():
            if self._peek() == "#":
                end = self._pattern.find("\n", self._at)
                self._at = len(self._pattern) if end < 0 else end + 1
            elif ord(self._peek()) in charset.WHITE_SPACE:
                self._at += 1
            else:
                return

    # ── structure ────────────────────────────────────────────────────────────────────────────────

    def _alternation(self) -> str:
        """Up to the end of the pattern or of the group, which is not consumed."""
        written: list[str] = []
        while True:
            self._skip_verbose()
            if self._peek() in {"", ")"}:
                return "".join(written)
            if self._accept("|"):
                written.append("|")
            else:
                written.append(self._repeated())

    def _repeated(self) -> str:
        start = self._at
        if self._peek() in {"*", "+", "?", "{"}:
            raise self._error(f"'{self._peek()}' repeats nothing")
        atom, can_repeat = self._atom()
        self._skip_verbose()
        quantifier = self._quantifier()
        if quantifier is None:
            return atom
        if not can_repeat:
            raise self._error("an anchor, a flag or a boundary cannot be repeated", start)
        self._skip_verbose()
        if self._peek() in {"*", "+", "?", "{"}:
            raise self._error("a repetition cannot be repeated; there are no possessive ones")
        return f"(?:{atom}){quantifier}"

    def _quantifier(self) -> str | None:
        if self._peek() in {"*", "+", "?"}:
            counted = self._take()
        elif self._peek() == "{":
            counted = self._count()
        else:
            return None
        lazy = self._accept("?") != self._flags.swap_greed
        return f"{counted}?" if lazy else counted

    def _count(self) -> str:
        start = self._at
        self._take()
        text = self._until("}", "a count")
        parts = re.fullmatch(r"([0-9]{1,9})(,([0-9]{1,9})?)?", text)
        if parts is None:
            raise self._error("a count is {n}, {n,} or {n,m}; a literal '{' is written \\{", start)
        low = int(parts[1])
        high = int(parts[3]) if parts[3] else low
        if low > high:
            raise self._error(f"the count {low} is larger than {high}", start)
        if high > COUNT_MAX:
            raise self._error(f"a count above {COUNT_MAX} is not supported", start)
        return "{" + text + "}"

    def _atom(self) -> tuple[str, bool]:
        """One thing, and whether it can be repeated."""
        start = self._at
        match self._take():
            case "(":
                return self._group(start)
            case "[":
                return self._class(start).to_python(), True
            case ".":
                return "(?s:.)" if self._flags.dot_all else ".", True
            case "^":
                return "(?m:^)" if self._flags.multi_line else r"\A", False
            case "$":
                return "(?m:$)" if self._flags.multi_line else r"\Z", False
            case "\\":
                return self._escape(start)
            case character:
                return self._literal(character), True

    def _literal(self, character: str) -> str:
        if self._flags.ignore_case:
            return CharSet.variants(character).to_python()
        return re.escape(character)

    # ── groups ───────────────────────────────────────────────────────────────────────────────────

    def _group(self, start: int) -> tuple[str, bool]:
        outer = self._flags
        if self._peek() == "?":
            for opening, reason in _REFUSED_GROUPS.items():
                if self._pattern.startswith(opening, self._at):
                    raise self._error(reason, start)
            if self._accept("?P<") or self._accept("?<"):
                self._name(start)
            else:
                self._take()
                if not self._flag_list(start):
                    return "", False
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._error(f"more than {NESTING_MAX} nested groups", start)
        inner = self._alternation()
        if not self._accept(")"):
            raise self._error("a group is never closed", start)
        self._depth -= 1
        self._flags = outer
        # Only whether something is found matters, so nothing needs to be captured.
        return f"(?:{inner})", True

    def _name(self, start: int) -> None:
        name = self._until(">", "the name of a group")
        if not _GROUP_NAME.fullmatch(name):
            raise self._error(f"'{name}' is not the name of a group", start)
        if name in self._group_names:
            raise self._error(f"two groups are called '{name}'", start)
        self._group_names.add(name)

    def _flag_list(self, start: int) -> bool:
        """Read `i-s:` or `i-s)`; true if a group follows, false if the flags hold from here on."""
        flags, seen, on = self._flags, "", True
        while (letter := self._take()) not in {":", ")"}:
            if letter == "-" and on:
                on = False
                continue
            changed = flags.set(letter, on=on) if letter else None
            if changed is None or letter in seen:
                raise self._error("these flags are not supported", start)
            flags, seen = changed, seen + letter
        if (letter == ")" and not seen) or self._pattern[self._at - 2] == "-":
            raise self._error("flags are missing", start)
        self._flags = flags
        return letter == ":"

    # ── escapes ──────────────────────────────────────────────────────────────────────────────────

    def _escape(self, start: int) -> tuple[str, bool]:
        letter = self._peek()
        match letter:
            case "A":
                self._take()
                return r"\A", False
            case "z":
                self._take()
                return r"\Z", False
            case "b" | "B" | "<" | ">":
                self._take()
                return self._boundary(letter), False
            case "Z":
                raise self._error(r"\Z is not supported; the end is \z or $", start)
            case _:
                meant = self._class_escape(start)
                if isinstance(meant, str):
                    return self._literal(meant), True
                return meant.to_python(), True

    def _boundary(self, letter: str) -> str:
        word = charset.word().to_python()
        for spelling, written in (
            ("b{start-half}", f"(?<!{word})"),
            ("b{end-half}", f"(?!{word})"),
            ("b{start}", f"(?:(?<!{word})(?={word}))"),
            ("b{end}", f"(?:(?<={word})(?!{word}))"),
        ):
            if letter == "b" and self._accept(spelling[1:]):
                return written
        match letter:
            case "<":
                return f"(?:(?<!{word})(?={word}))"
            case ">":
                return f"(?:(?<={word})(?!{word}))"
            case "b":
                return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
            case _:
                return f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))"

    def _class_escape(self, start: int) -> str | CharSet:
        """An escape that may also stand in a class: a character, or a set of them."""
        letter = self._take()
        match letter:
            case "":
                raise self._error("the pattern ends in a backslash", start)
            case "d" | "D" | "s" | "S" | "w" | "W":
                chosen = _perl_class(letter.lower())
                return chosen if letter.islower() else ~chosen
            case "p" | "P":
                return self._unicode_property(start, negated=letter == "P")
            case "x" | "u" | "U":
                return self._code_point(letter, start)
            case _ if letter in _CONTROL:
                return _CONTROL[letter]
            case _ if letter.isdigit():
                raise self._error("back-references and octal escapes are not supported", start)
            case _ if letter.isascii() and not letter.isalnum() and letter not in "<>":
                return letter
            case _:
                raise self._error(f"there is no escape '\\{letter}'", start)

    def _code_point(self, letter: str, start: int) -> str:
        if self._accept("{"):
            digits = self._until("}", "the escape")
        else:
            digits = self._peek(_HEX_DIGITS[letter])
            self._at += len(digits)
            if len(digits) < _HEX_DIGITS[letter]:
                raise self._error("an escape has too few digits", start)
        if not re.fullmatch(r"[0-9A-Fa-f]{1,8}", digits):
            raise self._error(f"'{digits}' is not a hexadecimal number", start)
        code = int(digits, 16)
        if code > charset.MAX or charset.SURROGATES[0] <= code <= charset.SURROGATES[1]:
            raise self._error(f"there is no character {digits}", start)
        return chr(code)

    def _unicode_property(self, start: int, *, negated: bool) -> CharSet:
        name = self._until("}", "the escape") if self._accept("{") else self._take()
        key, separator, value = name.partition("=")
        if separator and key.lower().replace("_", "") in {"gc", "generalcategory"}:
            name = value
        chosen = charset.find_property(name)
        if chosen is None:
            raise self._error(
                f"\\p{{{name}}} is not supported; general categories such as \\p{{L}} are", start
            )
        if self._flags.ignore_case:
            chosen = chosen.folded()
        return ~chosen if negated else chosen

    # ── classes ──────────────────────────────────────────────────────────────────────────────────

    def _class(self, start: int) -> CharSet:
        """After the '[': items, nested classes and set operations, up to the ']'."""
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise self._error(f"more than {NESTING_MAX} nested classes", start)
        negated = self._accept("^")
        union = list(self._class_opening().ranges)
        result: CharSet | None = None
        operation = ""
        while True:
            self._skip_verbose()
            if self._peek() == "":
                raise self._error("a class is never closed", start)
            if self._accept("]"):
                break
            if self._peek(2) in {"&&", "--", "~~"}:
                result = _combined(result, operation, CharSet.of(union))
                operation, union = self._peek(2), []
                self._at += 2
            else:
                union.extend(self._class_item().ranges)
        self._depth -= 1
        chosen = _combined(result, operation, CharSet.of(union))
        return ~chosen if negated else chosen

    def _class_opening(self) -> CharSet:
        """Hyphens, and a bracket, that are literal because a class begins with them."""
        opening = CharSet(())
        self._skip_verbose()
        while self._peek() == "-" and self._peek(2) != "--":
            self._take()
            opening |= CharSet.char("-")
        if not opening.ranges and self._accept("]"):
            opening |= CharSet.char("]")
        return opening

    def _class_item(self) -> CharSet:
        start = self._at
        if self._accept("[:"):
            return self._posix_class(start)
        if self._accept("["):
            return self._class(start)
        low = self._class_atom()
        if isinstance(low, CharSet):
            return low
        self._skip_verbose()
        if self._peek() != "-" or self._peek(2) in {"-]", "--"}:
            return self._cased(CharSet.char(low))
        self._take()
        self._skip_verbose()
        high = self._class_atom()
        if isinstance(high, CharSet) or low > high:
            raise self._error("the range is not one from a lower to a higher character", start)
        return self._cased(CharSet(((ord(low), ord(high)),)))

    def _class_atom(self) -> str | CharSet:
        start = self._at
        character = self._take()
        if character == "":
            raise self._error("a class is never closed", start)
        return self._class_escape(start) if character == "\\" else character

    def _posix_class(self, start: int) -> CharSet:
        negated = self._accept("^")
        name = self._until(":]", "the named class")
        if name not in charset.POSIX:
            raise self._error(f"there is no class [:{name}:]", start)
        chosen = self._cased(charset.POSIX[name])
        return ~chosen if negated else chosen

    def _cased(self, chosen: CharSet) -> CharSet:
        return chosen.folded() if self._flags.ignore_case else chosen


def _perl_class(letter: str) -> CharSet:
    match letter:
        case "d":
            return charset.category("Nd")
        case "s":
            return charset.WHITE_SPACE
        case _:
            return charset.word()


def _combined(left: CharSet | None, operation: str, right: CharSet) -> CharSet:
    match left, operation:
        case None, _:
            return right
        case CharSet(), "&&":
            return left & right
        case CharSet(), "--":
            return left - right
        case _:
            return left ^ right
