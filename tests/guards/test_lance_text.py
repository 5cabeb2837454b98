"""What we believe of Lance's full-text index: how it cuts, stems and folds. We scan as it does."""

import unicodedata
from collections import defaultdict
from itertools import product
from pathlib import Path

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.file import LanceFileReader
from lance.query import MatchQuery

from omnigraph.engine.search.analysis import WORD, WORD_BYTES_MAX, stem, term_of, terms_of

ROOTS = (
    *("gener", "commun", "arsen", "past", "univers", "later", "emerg", "organ", "inter", "hop"),
    *("nation", "happy", "relat", "agree", "plaster", "siz", "fall", "hiss", "add", "err", "sky"),
    *("technolog", "even", "d", "t", "sens", "electric", "proceed", "news", "boy", "cry", "ad"),
)
SUFFIXES = (
    *("", "s", "es", "ies", "ied", "ed", "edly", "ing", "ingly", "eed", "eedly", "y", "ying", "ly"),
    *("tional", "ization", "ator", "alism", "fulness", "ousness", "iveness", "biliti", "ogi"),
    *("ogist", "lessly", "alize", "icate", "ical", "ful", "ness", "ative", "ement", "ment", "ion"),
    *("ance", "ible", "ism", "ate", "ous", "ize", "er", "ic", "e", "ll", "l", "al"),
)
ODD = (
    *("straße", "Strasse", "naïve", "NAIVE", "Ærø", "aero", "foo_bar", "don't", "x" * 40, "é" * 20),
    *("x" * 39, "й", "и", "①", "1", "²", "ﬁne", "fine", "İstanbul", "istanbul", "½", "日本語"),
    *(
        "Łódź",
        "lodz",
        "café",
        "cafe",
        "cafe\u0301",
        "a1b2",
        "Ⅳ",
        "iv",
        "the",
        "The",
        "this",
        "their",
    ),
    *("not", "no", "very", "being", "having", "ours", "theirs", "because", "re", "doing", "does"),
)


def indexed(texts: list[str], place: Path, *, remove_stop_words: bool = True) -> LanceDataset:
    rows = pa.table({"place": list(range(len(texts))), "text": texts})
    dataset = lance.write_dataset(rows, place)
    dataset.create_scalar_index("text", "INVERTED", remove_stop_words=remove_stop_words)
    return dataset


def found(dataset: LanceDataset, query: str) -> set[object]:
    scanner = dataset.scanner(
        columns=["place"],
        full_text_query=MatchQuery(query, "text"),
        disable_scoring_autoprojection=True,
    )
    return set(scanner.to_table()["place"].to_pylist())


def test_words_have_the_same_stem_for_lance_as_for_us(tmp_path: Path) -> None:
    parts = product(ROOTS, SUFFIXES, SUFFIXES)
    words = sorted({word for each in parts if len(word := "".join(each)) <= WORD_BYTES_MAX})
    dataset = indexed(words, tmp_path, remove_stop_words=False)
    classes: dict[str, set[int]] = defaultdict(set)
    for place, word in enumerate(words):
        classes[stem(word)].add(place)
    (tokens,) = tmp_path.glob("_indices/*/part_*_tokens.lance")
    stored = LanceFileReader(str(tokens)).read_all().to_table()
    assert stored["_token_next_id"].to_pylist() == [len(classes)]
    assert stored["_token_total_length"].to_pylist() == [sum(map(len, classes))]
    several = [each for each in classes.values() if len(each) > 1][::20]
    assert len(several) > 300
    # A mistake that our own stemmer once made.
    assert stem("dyingly") == "dy"
    for places in [classes["dy"], *several]:
        assert found(dataset, words[min(places)]) == places


def test_texts_are_cut_and_folded_by_lance_as_by_us(tmp_path: Path) -> None:
    dataset = indexed(list(ODD), tmp_path)
    for query in ODD:
        terms = set(terms_of(query))
        ours = {place for place, text in enumerate(ODD) if terms & set(terms_of(text))}
        assert found(dataset, query) == ours, query


def test_every_character_is_part_of_a_word_for_lance_if_it_is_for_us(tmp_path: Path) -> None:
    assigned = [
        chr(code)
        for code in range(0x80, 0x20000)
        if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")
    ]
    rows = pa.table({"place": list(range(len(assigned))), "text": [f"a{c}b" for c in assigned]})
    dataset = lance.write_dataset(rows, tmp_path)
    dataset.create_scalar_index("text", "INVERTED", stem=False, remove_stop_words=False)
    apart = found(dataset, "b")
    ours = [len(WORD.findall(f"a{character}b")) == 2 for character in assigned]
    differ = [c for place, c in enumerate(assigned) if (place in apart) is not ours[place]]
    assert differ == []


def test_a_word_without_meaning_is_no_term() -> None:
    assert [each for each in ("the", "Theirs", "fox", "", "x" * 40) if term_of(each)] == ["fox"]
