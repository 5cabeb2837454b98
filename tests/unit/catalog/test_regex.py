r"""The dialect of Rust's `regex`: accepted patterns find what they would find there."""

from threading import Thread

import pytest

from omnigraph.catalog.charset import CharSet, category
from omnigraph.catalog.regex import (
    SIZE_MAX,
    WORK_MAX,
    PatternInvalid,
    PatternTooLarge,
    compile_pattern,
    translate,
)


def finds(pattern: str, value: str) -> bool:
    return compile_pattern(pattern).is_found_in(value)


@pytest.mark.parametrize(
    ("pattern", "found", "missed"),
    [
        ("", ["", "x"], []),
        ("b", ["abc"], ["ac", "B"]),
        ("^[A-Z]{2}-[0-9]+$", ["AB-7"], ["AB-7\n", "xAB-7", "AB-", "ab-7"]),
        ("a$", ["a", "ba"], ["a\n", "a\nb"]),
        ("(?m)a$", ["a", "a\nb", "a\n"], ["ab"]),
        ("(?m)^b", ["b", "a\nb"], ["ab"]),
        (r"\Aa\z", ["a"], ["a\n", "ba"]),
        ("a.b", ["axb", "a\rb", "a\u2028b"], ["a\nb"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        ("(?s)x(?-s:a.b)", ["xaxb"], ["xa\nb"]),
        ("a|b|", ["", "c"], []),
        ("^(?:a|b)$", ["a", "b"], ["ab", "c"]),
        ("^(a|b)c$", ["ac", "bc"], ["c"]),
        ("^(?P<x>a)(?<y>b)$", ["ab"], ["a"]),
        ("^a{2}$", ["aa"], ["a", "aaa"]),
        ("^a{2,}$", ["aa", "aaaa"], ["a"]),
        ("^a{1,2}?$", ["a", "aa"], ["", "aaa"]),
        ("^(?U)a+b$", ["aab"], ["b"]),
        (r"^\x41\x{42}\u0043\u{44}\U00000045$", ["ABCDE"], ["ABCD"]),
        (r"^\a\f\t\n\r\v$", ["\a\f\t\n\r\v"], ["aftnrv"]),
        (r"^\.\*\[\]\{\}\-\#\&\~\ \/$", [".*[]{}-#&~ /"], [""]),
        ("^}]$", ["}]"], ["]"]),
        ("^é+$", ["éé"], ["e"]),
        # classes
        ("^[]a]+$", ["]a"], ["b"]),
        ("^[^]a]+$", ["bc"], ["]", "a"]),
        ("^[-a]+$", ["-a"], ["b"]),
        ("^[a-]+$", ["-a"], ["b"]),
        ("^[a-c.]+$", ["abc."], ["d"]),
        (r"^[\d\]\\]+$", ["3]\\"], ["d"]),
        ("^[[:alpha:]_]+$", ["ab_"], ["1", "é"]),
        ("^[[:^alpha:]]+$", ["1é"], ["a"]),
        ("^[a-z&&[^aeiou]]+$", ["xyz"], ["a", "A"]),
        ("^[a-z--m-p]+$", ["az"], ["n"]),
        ("^[a-e~~c-g]+$", ["abfg"], ["c", "d", "e"]),
        ("^[^a-z&&a-c]+$", ["dz1"], ["a", "b"]),
        ("^[a[bc]d]+$", ["abcd"], ["e"]),
        ("^[&-]+$", ["&-"], ["a"]),
        (r"^[\x{1F600}-\x{1F64F}]$", ["\U0001f601"], ["x"]),
        (r"^[a-z&&\d]", [], ["a", "1"]),
        # Unicode
        (r"^\d+$", ["12", "٣"], ["²", "½", "a"]),
        (r"^\D$", ["²"], ["٣"]),
        (r"^\s+$", [" \t\n\v\f\r\x85\xa0\u2003"], ["\x1c", "\x1f", "\u200b"]),
        (r"^\S$", ["\x1c", "a"], [" "]),
        (r"^\w+$", ["aé_9ß", "e\u0301", "नि", "\u203f", "\u200d", "Ⅷ", "ⓐ"], ["²", "½", "-"]),
        (r"^\W$", ["²", "-"], ["\u0301"]),
        (r"^\p{L}+$", ["aéж"], ["1", "_"]),
        (r"^\p{Lu}\p{Ll}+$", ["Жж", "Aa"], ["aA"]),
        (r"^\pN$", ["1", "½"], ["a"]),
        (r"^\P{L}$", ["1"], ["a"]),
        (r"^\p{Uppercase_Letter}\p{gc=Nd}$", ["A1"], ["a1"]),
        (r"^[\p{L}--[a-z]]$", ["é", "A"], ["a", "1"]),
        (r"^\p{Any}$", ["\n"], [""]),
        (r"^\p{ASCII}$", ["a"], ["é"]),
        # boundaries
        (r"(?-u:\b)foo(?-u:\b)", ["foo", "a foo.", "éfoo", "foo\u0301"], ["foobar", "afoo"]),
        (r"(?-u)^\w\d\s[\w]é$", ["a1 bé"], ["é1 bé", "a٣ bé", "a1\u2003bé"]),
        # case
        ("(?i)straße", ["STRAẞE", "straße"], ["strasse"]),
        ("(?i)k", ["K", "\u212a"], ["c"]),
        ("(?i)s", ["ſ", "S"], ["z"]),
        ("(?i)^i$", ["I"], ["ı", "İ"]),
        ("(?i)σ", ["ς", "Σ"], ["s"]),
        ("(?i)^[a-c]+$", ["aBC"], ["d"]),
        ("(?i)^[^a]$", ["b"], ["a", "A"]),
        (r"(?i)^\p{Lu}$", ["a", "A"], ["1"]),
        ("a(?i)b|c", ["aB", "C"], ["Ab"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        # verbose
        ("(?x) ^ a # the first\n b [c d] $", ["abc", "abd"], ["ab ", "a b c"]),
        (r"(?x) a\ b", ["a b"], ["ab"]),
    ],
)
def test_a_pattern_finds_what_the_dialect_says(
    pattern: str, found: list[str], missed: list[str]
) -> None:
    for value in found:
        assert finds(pattern, value), f"{pattern!r} should be found in {value!r}"
    for value in missed:
        assert not finds(pattern, value), f"{pattern!r} should not be found in {value!r}"


UNICODE_BOUNDARY = (
    r"\{} by Unicode cannot be found in linear time; (?-u:\b) is the boundary of ASCII words"
)
HALF = "{} could match half a character under the flag -u"


@pytest.mark.parametrize(
    ("pattern", "reason", "at"),
    [
        ("a(?=b)", "look-ahead is not supported", 1),
        ("a(?!b)", "look-ahead is not supported", 1),
        ("(?<=a)b", "look-behind is not supported", 0),
        ("(?<!a)b", "look-behind is not supported", 0),
        ("(?>a)", "atomic groups are not supported", 0),
        ("(a)?(?(1)b)", "conditionals are not supported", 4),
        ("(?#note)a", "comments in groups are not supported", 0),
        ("(?P<x>a)(?P=x)", "back-references are not supported", 8),
        (r"(a)\1", "back-references and octal escapes are not supported", 3),
        (r"\07", "back-references and octal escapes are not supported", 0),
        ("a*+", "a repetition cannot be repeated; there are no possessive ones", 2),
        ("a**", "a repetition cannot be repeated; there are no possessive ones", 2),
        ("a{2}{3}", "a repetition cannot be repeated; there are no possessive ones", 4),
        ("*a", "'*' repeats nothing", 0),
        ("(+)", "'+' repeats nothing", 1),
        ("a|?", "'?' repeats nothing", 2),
        ("{2}", "'{' repeats nothing", 0),
        ("a{,3}", r"a count is {n}, {n,} or {n,m}; a literal '{' is written \{", 1),
        ("a{x}", r"a count is {n}, {n,} or {n,m}; a literal '{' is written \{", 1),
        ("a{2", "a count is never closed", 2),
        ("a{3,2}", "the count 3 is larger than 2", 1),
        ("a{1001}", "a count above 1000 is not supported", 1),
        ("(a", "a group is never closed", 0),
        ("a)", "a ')' closes nothing", 1),
        ("[a", "a class is never closed", 0),
        ("[", "a class is never closed", 0),
        ("[]", "a class is never closed", 0),
        ("[z-a]", "the range is not one from a lower to a higher character", 1),
        (r"[a-\d]", "the range is not one from a lower to a higher character", 1),
        ("[[:word]", "the named class is never closed", 3),
        ("[[:wort:]]", "there is no class [:wort:]", 1),
        (r"[\b]", r"there is no escape '\b'", 1),
        ("a\\", "the pattern ends in a backslash", 1),
        (r"\y", r"there is no escape '\y'", 0),
        (r"\é", r"there is no escape '\é'", 0),
        (r"\Z", r"\Z is not supported; the end is \z or $", 0),
        (r"\x4", "an escape has too few digits", 0),
        (r"\x{110000}", "there is no character 110000", 0),
        (r"\u{D800}", "there is no character D800", 0),
        (r"\x{zz}", "'zz' is not a hexadecimal number", 0),
        (r"\p{Greek}", r"\p{Greek} is not supported; general categories such as \p{L} are", 0),
        (r"\p", r"\p{} is not supported; general categories such as \p{L} are", 0),
        (r"\p{Cs}", r"\p{Cs} is not supported; general categories such as \p{L} are", 0),
        ("(?i", "these flags are not supported", 0),
        ("(?)", "flags are missing", 0),
        ("(?i-)", "flags are missing", 0),
        ("(?ii)", "these flags are not supported", 0),
        (r"a\b", UNICODE_BOUNDARY.format("b"), 1),
        (r"\B", UNICODE_BOUNDARY.format("B"), 0),
        (r"\<a", UNICODE_BOUNDARY.format("<"), 0),
        (r"\b{start}a", UNICODE_BOUNDARY.format("b"), 0),
        (r"(?-u)\B", UNICODE_BOUNDARY.format("B"), 5),
        ("(?-u).", HALF.format("."), 5),
        ("(?-u)[^a]", HALF.format("a negated class"), 5),
        ("(?-u)[[:^alpha:]]", HALF.format("a negated class"), 6),
        (r"(?-u)\W", HALF.format("\\W"), 5),
        (r"(?-u)\pL", HALF.format("\\p"), 5),
        ("(?i-u)a", "the flag i needs the flag u", 0),
        ("(?a)", "these flags are not supported", 0),
        ("(?<1>a)", "'1' is not the name of a group", 0),
        ("(?<a>a)(?<a>b)", "two groups are called 'a'", 7),
        ("^*", "an anchor, a flag or a boundary cannot be repeated", 0),
        (r"(?-u)\b+", "an anchor, a flag or a boundary cannot be repeated", 5),
        ("(?i)*", "an anchor, a flag or a boundary cannot be repeated", 0),
        ("(" * 101, "more than 100 nested groups", 100),
        ("[" * 101 + "a", "more than 100 nested classes", 100),
    ],
)
def test_what_the_dialect_does_not_have_is_refused(pattern: str, reason: str, at: int) -> None:
    with pytest.raises(PatternInvalid) as caught:
        translate(pattern)
    assert (caught.value.reason, caught.value.at) == (reason, at)


def test_groups_nested_as_deep_as_allowed_still_compile() -> None:
    assert finds(f"{'(' * 100}a{')' * 100}", "a")


def test_a_class_of_many_single_characters_is_written_out_whole() -> None:
    members = [chr(0x4E00 + 2 * at) for at in range(5_000)]
    pattern = f"^[{''.join(members)}]+$"
    assert finds(pattern, "".join(members))
    assert not finds(pattern, "\u4e01")


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a*)*$", "^(a|aa)+$", "^(?:.*a){20}$", "(a+a+)+c"]
)
def test_no_value_takes_a_pattern_exponential_time(pattern: str) -> None:
    """By trying alternatives one by one, none of these would end within the age of the sun."""
    assert not finds(pattern, "a" * 50_000 + "b")


def test_other_threads_run_while_a_long_value_is_searched() -> None:
    """Otherwise no lease would be renewed meanwhile."""
    value = f"{3**40_000:b}".translate({ord("0"): "a", ord("1"): "b"})
    pattern = compile_pattern("(a|b)*a(a|b){500}c")
    search = Thread(target=pattern.is_found_in, args=[value])
    turns = 0
    search.start()
    while search.is_alive():
        turns += 1
        search.join(0.001)
    assert turns > 20


@pytest.mark.parametrize(
    "pattern",
    [
        r"\w" * 200,
        r"\w{74}",
        r"(?:\w{9}){9}",
        "(?:a{100}){11}",
        "(?:(?:a{10}){10}){11}",
        "𝄞{1000}" * 60,
    ],
)
def test_a_pattern_whose_automaton_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(PatternTooLarge, match=r"too large|instructions"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", [r"^\w{1,64}$", "^[a-z]{1,1000}$", r"^[\w.+-]+@[\w-]+\.[\w.-]+$", ".{1,1000}"]
)
def test_patterns_as_people_write_them_are_not_too_large(pattern: str) -> None:
    assert compile_pattern(pattern).length_max >= WORK_MAX // SIZE_MAX


def test_a_value_may_be_the_longer_the_smaller_the_pattern_is() -> None:
    small, large = compile_pattern("^a+$"), compile_pattern(r"^\w{1,64}$")
    assert small.length_max > 10_000_000 > 10_000 > large.length_max
    assert not large.is_too_long("é" * (large.length_max // 2))
    assert large.is_too_long("é" * (large.length_max // 2 + 1))


def test_sets_of_characters_obey_the_laws_of_sets() -> None:
    letters, digits = CharSet.of([(97, 122)]), CharSet.of([(48, 57), (53, 60)])
    assert digits.ranges == ((48, 60),)
    assert ~~letters == letters
    assert (letters | digits) & letters == letters
    assert (letters | digits) - digits == letters
    assert letters ^ letters == CharSet(())
    assert (letters & digits).to_re2() == r"[^\x{0}-\x{10ffff}]"
    assert (~CharSet(())).to_re2() == r"[\x{0}-\x{d7ff}\x{e000}-\x{10ffff}]"
    assert 96 not in letters
    assert 97 in letters
    assert 122 in letters


def test_categories_partition_the_characters() -> None:
    whole = CharSet(())
    for name in "LMNPSZC":
        assert (whole & category(name)) == CharSet(())
        whole |= category(name)
    assert whole == ~CharSet(())
