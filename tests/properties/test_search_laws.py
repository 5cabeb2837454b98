"""Whatever happened to a table, a search answers as the slow one does, with an index or without."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from omnigraph.catalog.model import NodeType, Property
from omnigraph.catalog.types import Scalar, ValueType, Vector
from omnigraph.compiler import ir
from omnigraph.effects import REAL
from omnigraph.engine.search.analysis import cut_few, cut_many, edit_distances, terms_of
from omnigraph.engine.search.kept_texts import KeptTexts
from omnigraph.engine.search.posting_files import PostingFiles
from omnigraph.engine.search.ranking import Candidates, SearchedTable, SearchOptions, match, rank
from omnigraph.engine.search.texts import TextColumn
from omnigraph.engine.tables.metered import Metered
from omnigraph.storage.durability import Durability
from omnigraph.storage.layout import MAPPED
from omnigraph.storage.stores import open_stores
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    Handle,
    IndexKind,
    IndexScope,
    IndexSpec,
    Landed,
    Mark,
    Refused,
    Replacement,
    RowChanges,
    ScanRequest,
    Staged,
    TableRef,
)
from support import search as naive

IS_SOAK = os.environ.get("OMNIGRAPH_SOAK") is not None
EXAMPLES = 60 if IS_SOAK else 7
STEPS = 12 if IS_SOAK else 6

# Words that are their own stem, close enough to each other for typing errors to matter.
WORDS = ("alpha", "alpho", "beta", "bet", "gamma", "delta", "zeta", "zet", "omega", "kappa")
DIMENSION = 2
TEXT = ValueType(Scalar.STRING, nullable=True)
VECTOR = ValueType(Vector(DIMENSION), nullable=True)
DOC = NodeType("Doc", (Property("body", TEXT), Property("v", VECTOR)))
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "body": pa.string(),
    "n": pa.int64(),
    "v": pa.list_(pa.float32(), DIMENSION),
}
SCHEMA = pa.schema(COLUMNS)
BODY = ir.PropertyOf("d", "body", TEXT)
PLACE = ir.PropertyOf("d", "v", VECTOR)

phrases = st.lists(st.sampled_from(WORDS), min_size=0, max_size=6).map(" ".join)
vectors = st.tuples(st.integers(-2, 2), st.integers(-2, 2)).map(lambda v: [float(n) for n in v])
docs = st.fixed_dictionaries(
    {
        "body": st.none() | phrases,
        "n": st.integers(0, 3),
        "v": st.none() | vectors,
    }
)
Doc = dict[str, object]


def constant(value: ir.Value) -> ir.Constant:
    return ir.Constant(value, None)


def value_of(operand: ir.Operand) -> object:
    assert isinstance(operand, ir.Constant)
    return operand.value


def integers(rows: pa.Table, column: str) -> list[int]:
    return [int(each) for each in rows[column].to_numpy()]


class SearchMachine(RuleBasedStateMachine):
    """A table with a branch, written, indexed and searched in any order."""

    @initialize()
    def create(self) -> None:
        self.folder = TemporaryDirectory()
        stores = open_stores(self.folder.name, REAL, durability=Durability.RELAXED)
        self.tables = stores.tables
        self.mapped = stores.mapped
        self.count = 0
        self.handles = {
            "main": self.commit(self.tables.stage_create(TableRef("t"), SCHEMA, self.mark()))
        }
        self.models: dict[str, dict[str, Doc]] = {"main": {}}

    def mark(self) -> Mark:
        return Mark(REAL.new_id())

    def commit(self, staged: Staged) -> Handle:
        outcome = self.tables.commit_exact(staged)
        assert isinstance(outcome, Landed)
        return outcome.handle

    def table(self, model: dict[str, Doc]) -> pa.Table:
        return pa.Table.from_pylist(
            [{"id": key, **doc} for key, doc in model.items()], schema=SCHEMA
        )

    @rule(side=st.booleans(), new=st.lists(docs, min_size=1, max_size=4))
    def insert(self, *, side: bool, new: list[Doc]) -> None:
        name = self.name(side=side)
        fresh = {}
        for doc in new:
            self.count += 1
            fresh[f"d{self.count:03}"] = doc
        changes = RowChanges(inserts=self.table(fresh))
        handle = self.handles[name]
        self.handles[name] = self.commit(self.tables.stage_rows(handle, changes, self.mark()))
        self.models[name].update(fresh)

    @rule(side=st.booleans(), doc=docs, place=st.integers(0, 20))
    def update(self, *, side: bool, doc: Doc, place: int) -> None:
        name = self.name(side=side)
        if not self.models[name]:
            return
        key = sorted(self.models[name])[place % len(self.models[name])]
        handle = self.handles[name]
        seat = self.tables.locate(handle, "id", [key])
        changes = RowChanges(
            updates=Replacement(
                self.table({key: doc}), integers(seat, ROW_ID), integers(seat, ROW_ADDRESS)
            )
        )
        self.handles[name] = self.commit(self.tables.stage_rows(handle, changes, self.mark()))
        self.models[name][key] = doc

    @rule(side=st.booleans(), place=st.integers(0, 20))
    def delete(self, *, side: bool, place: int) -> None:
        name = self.name(side=side)
        if not self.models[name]:
            return
        key = sorted(self.models[name])[place % len(self.models[name])]
        staged = self.tables.stage_delete(self.handles[name], f"id = '{key}'", self.mark())
        self.handles[name] = self.commit(staged)
        del self.models[name][key]

    @rule(side=st.booleans())
    def index(self, *, side: bool) -> None:
        name = self.name(side=side)
        specs = [IndexSpec("body", IndexKind.INVERTED)]
        staged = self.tables.stage_indices(
            self.handles[name], specs, IndexScope.UNCOVERED, self.mark()
        )
        if staged is not None:
            self.handles[name] = self.commit(staged)

    @rule(side=st.booleans())
    def compact(self, *, side: bool) -> None:
        name = self.name(side=side)
        staged = self.tables.stage_compaction(self.handles[name])
        if staged is not None:
            outcome = self.tables.single_step.commit_compaction(staged)
            assert not isinstance(outcome, Refused)
            self.handles[name] = outcome.handle

    @rule(side=st.booleans())
    def keep_postings(self, *, side: bool) -> None:
        assert self.mapped is not None
        handle = self.handles[self.name(side=side)]
        texts = TextColumn(Metered(self.tables, handle), "body")
        files = PostingFiles(self.mapped, "t", "body")
        for fragment in self.tables.inspect(handle).fragments:
            if not files.is_kept(fragment):
                files.write(fragment, texts.parts(fragment))
                assert files.is_kept(fragment)

    @rule(which=st.integers(0, 100), where=st.integers(0, 10_000))
    def damage_a_file(self, *, which: int, where: int) -> None:
        files = sorted((Path(self.folder.name) / MAPPED).rglob("*.blocks"))
        if files:
            file = files[which % len(files)]
            data = bytearray(file.read_bytes())
            data[where % len(data)] ^= 255
            file.write_bytes(data)

    def name(self, *, side: bool) -> str:
        if side and "side" not in self.handles:
            self.handles["side"] = self.tables.fork(self.handles["main"], "side")
            self.models["side"] = dict(self.models["main"])
        return "side" if side else "main"

    @rule(
        side=st.booleans(),
        query=phrases,
        edits=st.integers(0, 3),
        most=st.integers(0, 5),
        point=vectors,
        some=st.sets(st.integers(1, 12)) | st.none(),
        where=st.none() | st.integers(0, 3),
        tried=st.integers(1, 4),
    )
    def search(
        self,
        *,
        side: bool,
        query: str,
        edits: int,
        most: int,
        point: list[float],
        some: set[int] | None,
        where: int | None,
        tried: int,
    ) -> None:
        name = self.name(side=side)
        searched = SearchedTable(self.tables, self.handles[name], DOC)
        candidates = Candidates(
            None if where is None else f"n >= {where}",
            None if some is None else pa.array([f"d{each:03}" for each in some], pa.string()),
        )
        model = self.models[name]
        among = {
            key
            for key, doc in model.items()
            if (where is None or int(str(doc["n"])) >= where)
            and (some is None or int(key[1:]) in some)
        }
        bodies = {key: str(doc["body"]) for key, doc in model.items() if doc["body"] is not None}
        read = SearchOptions(kept=KeptTexts(), tried_max=tried)
        by_index = replace(read, scan_rows_max=0, kept=KeptTexts(), index_row_cost=0)
        by_file = replace(read, kept=KeptTexts(), mapped=self.mapped)
        by_both = replace(by_index, kept=KeptTexts(), mapped=self.mapped)
        for options in (read, by_index, by_file, by_both):
            self.check_clauses(searched, candidates, options, query, edits, bodies, among)
            self.check_ranks(searched, candidates, options, query, point, most, bodies, among)
        self.check_scores(searched, query, read, by_index, by_file, by_both)

    def check_scores(self, searched: SearchedTable, query: str, *by: SearchOptions) -> None:
        """The same to the last bit, however the texts are found."""
        found = [
            rank(searched, ir.Bm25(BODY, constant(query)), value_of, options=options)
            for options in by
        ]
        assert all(each == found[0] for each in found)

    def check_clauses(
        self,
        searched: SearchedTable,
        candidates: Candidates,
        options: SearchOptions,
        query: str,
        edits: int,
        bodies: dict[str, str],
        among: set[str],
    ) -> None:
        for function in ir.TextFunction:
            most = constant(edits) if function is ir.TextFunction.FUZZY else None
            clause = ir.TextMatch(function, BODY, constant(query), most)
            found = match(searched, clause, value_of, candidates, options=options)
            expected = [
                key
                for key, body in bodies.items()
                if key in among and naive.is_text_match(function, body, query, edits)
            ]
            assert sorted(map(str, found.to_pylist())) == sorted(expected), function

    def check_ranks(
        self,
        searched: SearchedTable,
        candidates: Candidates,
        options: SearchOptions,
        query: str,
        point: Sequence[float],
        most: int,
        bodies: dict[str, str],
        among: set[str],
    ) -> None:
        model = self.models["side" if searched.handle.ref.branch else "main"]
        by_text = naive.only(naive.rank_by_text(bodies, query), among)
        known = {key: doc["v"] for key, doc in model.items() if isinstance(doc["v"], list)}
        by_place = naive.only(naive.rank_by_distance(known, point), among)[:most]
        bm25 = ir.Bm25(BODY, constant(query))
        nearest = ir.Nearest(PLACE, constant(tuple(point)))
        for by, expected in (
            (bm25, by_text),
            (bm25, by_text[:most]),
            (nearest, by_place),
            (ir.Rrf(bm25, nearest, constant(60)), naive.fuse(by_text, by_place, 60)[:most]),
            (ir.Rrf(nearest, bm25, constant(1)), naive.fuse(by_place, by_text, 1)[:most]),
        ):
            keep = None if expected is by_text else most
            found = rank(searched, by, value_of, candidates, keep, options=options)
            assert found.ids.to_pylist() == [key for key, _ in expected], by
            assert found.scores.to_pylist() == pytest.approx([score for _, score in expected])

    @invariant()
    def every_row_is_there(self) -> None:
        for name, handle in getattr(self, "handles", {}).items():
            held = self.tables.read(handle, ScanRequest(("id",)))["id"]
            assert sorted(map(str, held.to_pylist())) == sorted(self.models[name])

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


SearchMachine.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS * 2,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestSearchMachine = SearchMachine.TestCase


@given(words=st.lists(st.text("abcd", max_size=6), max_size=5), wanted=st.text("abcd", max_size=6))
def test_edit_distances_are_those_of_the_definition(words: list[str], wanted: str) -> None:
    found = edit_distances(tuple(words), wanted).tolist()
    assert found == [naive.edits(each, wanted) for each in words]


@given(text=st.text(max_size=40))
def test_every_text_has_terms_without_an_error(text: str) -> None:
    assert all(len(each) > 0 for each in terms_of(text))


KNOWN = st.characters(exclude_categories=("Cs", "Cn", "Co"))
"""Characters that Python knows: tables of others may be newer."""


@given(texts=st.lists(st.text(KNOWN, max_size=20), max_size=5))
def test_few_texts_are_cut_as_many_are(texts: list[str]) -> None:
    few, many = cut_few(pa.array(texts, pa.string())), cut_many(pa.array(texts, pa.string()))
    words = [each for each in many[0].to_pylist() if each]
    assert few[0].to_pylist() == words
    assert few[1].sum() == len(words)


@given(words=st.lists(st.sampled_from(WORDS), max_size=6))
def test_words_that_are_their_own_stem_are_their_own_terms(words: list[str]) -> None:
    assert list(terms_of(", ".join(words).upper())) == sorted(set(words))
