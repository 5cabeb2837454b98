"""Documents with texts and vectors in three programs, and how each of them searches.

Ladybug and DuckDB have full-text and vector indexes in extensions that are downloaded when they are
first asked for, which no benchmark should depend on. So both search by what comes with them: every
vector that passes the filter is measured, and texts are scored by the same formula over postings,
which are a table in one and edges from words to documents in the other. The extensions for text
work in the same way. Two rankings are fused by SQL in one, by the caller in the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import ladybug
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.sdk.embedded.graph import LocalGraph

DIMENSION = 32
FEW = 8
VOCABULARY = 30_000
WORDS_MIN, WORDS_MAX = 4, 12
ASKED = 20
RANK_CONSTANT = 60
LIMIT = 10

SCHEMA = f"""
node Doc {{ slug: String @key  body: String @index  year: I32 @index
            vec: Vector({DIMENSION}) @index }}
"""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Documents:
    rows: pa.Table
    words: pa.Table
    postings: pa.Table
    """Which document holds which word, and how often."""
    vectors: Sequence[Sequence[float]]
    """To be asked for; not among the documents."""
    queries: Sequence[str]
    """As many again as are compared, so that each can be timed when it is first asked."""

    @property
    def mean(self) -> float:
        return float(np.asarray(self.rows["terms"]).mean())


def make_documents(count: int) -> Documents:
    """A tenth of them is from before year 10. Vectors lie close to a space of few dimensions."""
    dice = np.random.default_rng(11)
    lengths = dice.integers(WORDS_MIN, WORDS_MAX + 1, count)
    spelled = np.array([f"w{rank:x}q" for rank in range(VOCABULARY + 1)])
    ranks = np.minimum(dice.zipf(1.3, int(lengths.sum())), VOCABULARY)
    parts = np.split(spelled[ranks], np.cumsum(lengths)[:-1])
    made = dice.normal(size=(count + 2 * ASKED, FEW)) @ dice.normal(size=(FEW, DIMENSION))
    vectors = (made + 0.3 * dice.normal(size=made.shape)).astype(np.float32)
    slugs = pa.array([f"d{number:07}" for number in range(count)])
    rows = pa.table(
        {
            "slug": slugs,
            "body": pa.array([" ".join(each) for each in parts]),
            "year": pa.array(dice.integers(0, 100, count), pa.int32()),
            "terms": pa.array(lengths, pa.int32()),
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors[:count].ravel()), DIMENSION),
        }
    )
    words, postings = _count_words(ranks, lengths, spelled, slugs)
    queries = [f"{spelled[40 + at]} {spelled[400 + at]}" for at in range(2 * ASKED)]
    asked = [[float(each) for each in vector] for vector in vectors[count:]]
    return Documents(rows, words, postings, asked, queries)


def _count_words(
    ranks: "npt.NDArray[np.int64]",
    lengths: "npt.NDArray[np.int64]",
    spelled: "npt.NDArray[np.str_]",
    slugs: "pa.Array[Any]",
) -> tuple[pa.Table, pa.Table]:
    texts = np.repeat(np.arange(len(lengths)), lengths)
    pairs, times = np.unique(ranks * len(lengths) + texts, return_counts=True)
    terms, places = np.divmod(pairs, len(lengths))
    numbers, holding = np.unique(terms, return_counts=True)
    indices: Any = pa.array(places)
    words = pa.table({"term": spelled[numbers].tolist(), "texts": holding})
    postings = {"term": spelled[terms].tolist(), "slug": slugs.take(indices), "times": times}
    return words, pa.table(postings)


# ── the three programs ───────────────────────────────────────────────────────────────────────────


def fill_rivals(folder: Path, documents: Documents) -> None:
    tables = {"doc": documents.rows, "word": documents.words, "holds": documents.postings}
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    bug = ladybug.Connection(ladybug.Database(str(folder / "ladybug.db")))
    bug.execute(
        "CREATE NODE TABLE Doc(slug STRING, body STRING, year INT32, terms INT32, "
        f"vec FLOAT[{DIMENSION}], PRIMARY KEY (slug))"
    )
    bug.execute("CREATE NODE TABLE Word(term STRING, texts INT64, PRIMARY KEY (term))")
    bug.execute("CREATE REL TABLE Holds(FROM Word TO Doc, times INT64)")
    for name in ("Doc", "Word", "Holds"):
        bug.execute(f"COPY {name} FROM '{folder / name.lower()}.parquet'")
    duck = duckdb.connect(str(folder / "duck.db"))
    vector = f"vec::FLOAT[{DIMENSION}] AS vec"
    duck.execute(f"CREATE TABLE doc AS SELECT * REPLACE ({vector}) FROM '{folder}/doc.parquet'")
    for name in ("word", "holds"):
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM '{folder / name}.parquet'")
    duck.execute("CREATE INDEX by_term ON holds(term)")
    duck.execute("CREATE INDEX by_slug ON doc(slug)")
    duck.close()


# ── the questions ────────────────────────────────────────────────────────────────────────────────

SCORE = (
    "round(sum(ln(1 + ({texts} - w.texts + 0.5) / (w.texts + 0.5)) * h.times * 2.2 "
    "/ (h.times + 1.2 * (0.25 + 0.75 * d.terms / {mean}))), 9)"
)
"""BM25, with constants as everybody has them; rounded, so that equal scores are equal."""

GQ = {
    "nearest": "query q($v: Vector({dimension})) {{ match {{ $d: Doc $d.year < 10 }} "
    "return {{ $d.slug }} order {{ nearest($d.vec, $v) }} limit {limit} }}",
    "bm25": "query q($q: String) {{ match {{ $d: Doc $d.year < 10 }} "
    "return {{ $d.slug }} order {{ bm25($d.body, $q) }} limit {limit} }}",
    "rrf": "query q($v: Vector({dimension}), $q: String) {{ match {{ $d: Doc $d.year < 10 }} "
    "return {{ $d.slug }} order {{ rrf(nearest($d.vec, $v), bm25($d.body, $q)) }} limit {limit} }}",
}
CYPHER = {
    "nearest": "MATCH (d:Doc) WHERE d.year < 10 RETURN d.slug AS slug, "
    "array_squared_distance(d.vec, CAST($v AS FLOAT[{dimension}])) AS far "
    "ORDER BY far, slug LIMIT {limit}",
    "bm25": "MATCH (w:Word)-[h:Holds]->(d:Doc) WHERE w.term IN string_split($q, ' ') "
    "AND d.year < 10 RETURN d.slug AS slug, {score} AS score ORDER BY score DESC, slug",
}
SQL = {
    "nearest": "SELECT slug FROM doc WHERE year < 10 "
    "ORDER BY array_distance(vec, $v::FLOAT[{dimension}]), slug LIMIT {limit}",
    "bm25": "SELECT slug FROM ({texts_sql}) ORDER BY score DESC, slug LIMIT {limit}",
    "rrf": "WITH near AS (SELECT slug, row_number() OVER (ORDER BY far, slug) AS place FROM "
    "(SELECT slug, array_distance(vec, $v::FLOAT[{dimension}]) AS far FROM doc WHERE year < 10 "
    "ORDER BY far, slug LIMIT {limit})), texts AS (SELECT slug, row_number() OVER "
    "(ORDER BY score DESC, slug) AS place FROM ({texts_sql})) "
    "SELECT slug FROM (SELECT *, 1 AS arm FROM near UNION ALL SELECT *, 2 FROM texts) "
    "GROUP BY slug ORDER BY round(sum(1.0 / ({constant} + place)), 12) DESC, min(arm), min(place) "
    "LIMIT {limit}",
}
TEXTS_SQL = (
    "SELECT d.slug, {score} AS score FROM holds h JOIN word w ON w.term = h.term "
    "JOIN doc d ON d.slug = h.slug WHERE h.term IN (SELECT unnest(string_split($q, ' '))) "
    "AND d.year < 10 GROUP BY d.slug"
)
KINDS = {
    "nearest": "nearest 10 with a filter",
    "bm25": "bm25 with a filter",
    "rrf": "rrf of nearest and bm25 with a filter",
}


@dataclass(frozen=True)
class Searches:
    """One search after another, of each program."""

    documents: Documents
    graph: LocalGraph
    bug: Any
    duck: Any

    def ask(self, kind: str, number: int) -> "dict[str, Callable[[], list[Row]]]":
        """The slugs that a search finds, best first."""
        params = self._params(kind, number)
        gq, sql = self._spell(GQ[kind]), self._spell(SQL[kind])
        return {
            "omnigraph": lambda: [
                (each,) for each in self.graph.query(gq, params=params).arrow()[0].to_pylist()
            ],
            "ladybug": lambda: self._ask_ladybug(kind, params),
            "duckdb": lambda: self.duck.execute(sql, params).fetchall(),
        }

    def _params(self, kind: str, number: int) -> dict[str, object]:
        vector, query = self.documents.vectors[number], self.documents.queries[number]
        known: dict[str, object] = {"v": list(vector), "q": query}
        wanted = {"nearest": "v", "bm25": "q", "rrf": "vq"}[kind]
        return {name: known[name] for name in wanted}

    def _ask_ladybug(self, kind: str, params: dict[str, object]) -> list[Row]:
        if kind != "rrf":
            return [(row[0],) for row in self._rank_ladybug(kind, params)][:LIMIT]
        scores: dict[str, float] = {}
        for arm, name in (("nearest", "v"), ("bm25", "q")):
            for place, row in enumerate(self._rank_ladybug(arm, {name: params[name]}), start=1):
                scores[row[0]] = scores.get(row[0], 0.0) + 1 / (RANK_CONSTANT + place)
        return [(each,) for each in sorted(scores, key=lambda slug: -scores[slug])[:LIMIT]]

    def _rank_ladybug(self, kind: str, params: dict[str, object]) -> "list[list[Any]]":
        return list(self.bug.execute(self._spell(CYPHER[kind]), params))

    def _spell(self, template: str) -> str:
        score = SCORE.format(texts=float(self.documents.rows.num_rows), mean=self.documents.mean)
        return template.format(
            dimension=DIMENSION,
            limit=LIMIT,
            constant=RANK_CONSTANT,
            score=score,
            texts_sql=TEXTS_SQL.format(score=score),
        )

    def agreement(self, kind: str) -> float:
        """The share of what DuckDB finds, looking at everything, that we find too."""
        shared = right = 0
        for number in range(ASKED):
            answers = self.ask(kind, number)
            wanted = set(answers["duckdb"]())
            shared += len(wanted.intersection(answers["omnigraph"]()))
            right += len(wanted)
        return shared / right
