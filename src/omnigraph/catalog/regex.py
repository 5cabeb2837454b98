r"""The patterns of `@check`: the dialect of the Rust `regex` crate, run by RE2 in linear time.

A pattern is parsed by the rules of Rust and written in the syntax of RE2, so that it matches the
same values. No part is copied: `\w`, `\s`, classes and their set operations become sets of
characters with Rust's meaning, flags hold to the end of their group, `(?i)` is simple case folding.
Only the existence of a match matters, so lazy repetitions become greedy, and groups capture
nothing.

Refused, because the dialect does not have them: look-around, back-references, atomic groups,
conditionals, possessive and other doubled repetitions, comments `(?#…)`, octal escapes, `\Z`.
Refused, because RE2 cannot express them: Unicode word boundaries. `(?-u:\b)`, the ASCII word
boundary, is accepted.
Refused, though the dialect has them: scripts and other `\p{…}` besides general categories, the flag
`R`, everything that could match half a character under `-u`, `(?i-u)`, repeating an anchor, counts
above 1,000, and more than 100 nested groups.

Linear time can still be long: in the worst case every instruction of the automaton examines every
byte of a value. So both are bounded: the automaton by `SIZE_MAX`, a value by `WORK_MAX`.
"""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from omnigraph.catalog import charset
from omnigraph.catalog.charset import CharSet

COUNT_MAX: Final = 1_000
NESTING_MAX: Final = 100
SIZE_MAX: Final = 100_000
"""Instructions of an automaton. One `\\w` takes 1,367 of them, one letter takes one."""

TEXT_MAX: Final = 1_000_000
"""Characters in the syntax of RE2; more would take long to compile. One `\\w` takes 10,000."""

WORK_MAX: Final = 250_000_000
"""Instructions times bytes of a value: two seconds for the worst value of a pattern."""

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


class PatternTooLarge(PatternInvalid):
    """A pattern is of the accepted dialect, but its automaton is too large."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern."""

    text: str
    """In the syntax of RE2."""
    length_max: int
    """Longer values, in bytes, are refused."""
    _automaton: Any

    def is_found_in(self, value: str) -> bool:
        """The value must not be too long. Other threads run during the search."""
        return self._automaton.search(value.encode()) is not None

    def is_too_long(self, value: str) -> bool:
        return len(value) * 4 > self.length_max and len(value.encode()) > self.length_max


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Pattern:
    """Raises `PatternInvalid`."""
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415 - most schemas have no pattern

    text = translate(pattern)
    if len(text) > TEXT_MAX:
        raise PatternTooLarge("the pattern has too many or too large classes", 0)
    options = re2.Options()
    options.log_errors = False  # which would write to stderr
    try:
        automaton = re2.compile(text, options)
    except re2.error as failure:
        raise PatternTooLarge(
            "the pattern, or the product of its counts, is too large", 0
        ) from failure
    size: int = automaton.programsize
    if size > SIZE_MAX:
        message = f"the pattern takes {size:,} instructions, and {SIZE_MAX:,} is the most"
        raise PatternTooLarge(message, 0)
    return Pattern(text, WORK_MAX // size, automaton)


def translate(pattern: str) -> str:
    """The pattern in the syntax of RE2. Raises `PatternInvalid`."""
    return _Translator(pattern).whole()


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    multi_line: bool = False
    dot_all: bool = False
    verbose: bool = False
    unicode: bool = True

    def set(self, letter: str, *, on: bool) -> "_Flags | None":
        match letter:
            case "i":
                return replace(self, ignore_case=on)
            case "m":
                return replace(self, multi_line=on)
            case "s":
                return replace(self, dot_all=on)
            case "U":  # swaps greedy and lazy
                return self
            case "x":
                return replace(self, verbose=on)
            case "u":
                return replace(self, unicode=on)
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
        """Skip white space and comments under the flag x."""
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
        """Parse up to the end of the pattern or of the group, which is not consumed."""
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
        self._accept("?")
        return counted

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
        """One item, and whether it can be repeated."""
        start = self._at
        match self._take():
            case "(":
                return self._group(start)
            case "[":
                return self._class(start).to_re2(), True
            case ".":
                self._require_unicode(".", start)
                return "(?s:.)" if self._flags.dot_all else ".", True
            case "^":
                return "(?m:^)" if self._flags.multi_line else r"\A", False
            case "$":
                return "(?m:$)" if self._flags.multi_line else r"\z", False
            case "\\":
                return self._escape(start)
            case character:
                return self._literal(character), True

    def _literal(self, character: str) -> str:
        if self._flags.ignore_case:
            return CharSet.variants(character).to_re2()
        return charset.written(ord(character))

    def _require_unicode(self, what: str, start: int) -> None:
        if not self._flags.unicode:
            raise self._error(f"{what} could match half a character under the flag -u", start)

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
        # Only the existence of a match matters, so no group captures.
        return f"(?:{inner})", True

    def _name(self, start: int) -> None:
        name = self._until(">", "the name of a group")
        if not _GROUP_NAME.fullmatch(name):
            raise self._error(f"'{name}' is not the name of a group", start)
        if name in self._group_names:
            raise self._error(f"two groups are called '{name}'", start)
        self._group_names.add(name)

    def _flag_list(self, start: int) -> bool:
        """Parse `i-s:` or `i-s)`; True if a group follows, False if the flags hold from here on."""
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
        if flags.ignore_case and not flags.unicode:
            raise self._error("the flag i needs the flag u", start)
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
                return r"\z", False
            case "b" if not self._flags.unicode:
                self._take()
                return r"\b", False
            case "b" | "B" | "<" | ">":
                raise self._error(
                    rf"\{letter} by Unicode cannot be found in linear time; "
                    r"(?-u:\b) is the boundary of ASCII words",
                    start,
                )
            case "Z":
                raise self._error(r"\Z is not supported; the end is \z or $", start)
            case _:
                meant = self._class_escape(start)
                if isinstance(meant, str):
                    return self._literal(meant), True
                return meant.to_re2(), True

    def _class_escape(self, start: int) -> str | CharSet:
        """An escape that may also stand in a class: a character, or a set of them."""
        letter = self._take()
        match letter:
            case "":
                raise self._error("the pattern ends in a backslash", start)
            case "d" | "D" | "s" | "S" | "w" | "W":
                chosen = _perl_class(letter.lower(), unicode=self._flags.unicode)
                if letter.islower():
                    return chosen
                self._require_unicode(f"\\{letter}", start)
                return ~chosen
            case "p" | "P":
                self._require_unicode(f"\\{letter}", start)
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
        if negated:
            self._require_unicode("a negated class", start)
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
        if negated:
            self._require_unicode("a negated class", start)
        name = self._until(":]", "the named class")
        if name not in charset.POSIX:
            raise self._error(f"there is no class [:{name}:]", start)
        chosen = self._cased(charset.POSIX[name])
        return ~chosen if negated else chosen

    def _cased(self, chosen: CharSet) -> CharSet:
        return chosen.folded() if self._flags.ignore_case else chosen


_ASCII_CLASSES: Final = {"d": "digit", "s": "space", "w": "word"}


def _perl_class(letter: str, *, unicode: bool) -> CharSet:
    match letter:
        case _ if not unicode:
            return charset.POSIX[_ASCII_CLASSES[letter]]
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
