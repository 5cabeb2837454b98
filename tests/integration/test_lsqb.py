"""The nine questions of LSQB, as their authors ask them, beside DuckDB on a small random network.

A message is a post or a comment: `$m: Message`, and every edge of messages is one of two types.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random  # noqa: TID251 - a test chooses its own seed

import duckdb
import pytest

import omnigraph
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
interface Message { length: I32 }
node Country { name: String @key }
node City { name: String @key }
node Person { name: String @key }
node Forum { name: String @key }
node Post implements Message { slug: String @key }
node Comment implements Message { slug: String @key }
node Tag { name: String @key }
node TagClass { name: String @key }
edge PartOf: City -> Country
edge LivesIn: Person -> City
edge Member: Forum -> Person
edge Contains: Forum -> Post
edge Knows: Person -> Person
edge Interest: Person -> Tag
edge Kind: Tag -> TagClass
edge PostBy: Post -> Person
edge CommentBy: Comment -> Person
edge PostTag: Post -> Tag
edge CommentTag: Comment -> Tag
edge LikesPost: Person -> Post
edge LikesComment: Person -> Comment
edge OnPost: Comment -> Post
edge OnComment: Comment -> Comment
"""
SIZES = {
    "Country": 2, "City": 7, "Person": 14, "Forum": 4, "Post": 12, "Comment": 24, "Tag": 5,
    "TagClass": 2,
}  # fmt: skip
ENDS = {
    "PartOf": ("City", "Country", 1), "LivesIn": ("Person", "City", 1),
    "Member": ("Forum", "Person", 5), "Contains": ("Forum", "Post", 4),
    "Knows": ("Person", "Person", 5), "Interest": ("Person", "Tag", 2),
    "Kind": ("Tag", "TagClass", 1), "PostBy": ("Post", "Person", 1),
    "CommentBy": ("Comment", "Person", 1), "PostTag": ("Post", "Tag", 2),
    "CommentTag": ("Comment", "Tag", 2), "LikesPost": ("Person", "Post", 2),
    "LikesComment": ("Person", "Comment", 2), "OnPost": ("Comment", "Post", 1),
    "OnComment": ("Comment", "Comment", 1),
}  # fmt: skip
KEYS = {"Post": "slug", "Comment": "slug"}

VIEWS = """
CREATE VIEW k AS SELECT src, dst FROM Knows UNION SELECT dst, src FROM Knows;
CREATE VIEW tag AS SELECT 'P' || src AS m, dst AS t FROM PostTag
    UNION ALL SELECT 'C' || src, dst FROM CommentTag;
CREATE VIEW author AS SELECT 'P' || src AS m, dst AS p FROM PostBy
    UNION ALL SELECT 'C' || src, dst FROM CommentBy;
CREATE VIEW likes AS SELECT src AS p, 'P' || dst AS m FROM LikesPost
    UNION ALL SELECT src, 'C' || dst FROM LikesComment;
CREATE VIEW reply AS SELECT src AS c, 'P' || dst AS m FROM OnPost
    UNION ALL SELECT src, 'C' || dst FROM OnComment;
"""

QUESTIONS = {
    "q1": (
        """$n: Country  $i partOf $n  $p livesIn $i  $f member $p  $f contains $o  $c onPost $o
        $c commentTag $t  $t kind $k""",
        """SELECT count(*) FROM PartOf a JOIN LivesIn b ON b.dst = a.src JOIN Member c
        ON c.dst = b.src JOIN Contains d ON d.src = c.src JOIN OnPost e ON e.dst = d.dst
        JOIN CommentTag f ON f.src = e.src JOIN Kind g ON g.src = f.dst""",
    ),
    "q2": (
        "$a: Person  $a <knows> $b  $c commentBy $a  $c onPost $o  $o postBy $b",
        """SELECT count(*) FROM k JOIN CommentBy a ON a.dst = k.src JOIN OnPost b ON b.src = a.src
        JOIN PostBy c ON c.src = b.dst AND c.dst = k.dst""",
    ),
    "q3": (
        """$n: Country  $x partOf $n  $y partOf $n  $z partOf $n  $a livesIn $x  $b livesIn $y
        $c livesIn $z  $a <knows> $b  $b <knows> $c  $c <knows> $a""",
        """SELECT count(*) FROM k ab JOIN k bc ON bc.src = ab.dst JOIN k ca ON ca.src = bc.dst
        AND ca.dst = ab.src JOIN LivesIn a ON a.src = ab.src JOIN LivesIn b ON b.src = bc.src
        JOIN LivesIn c ON c.src = ca.src JOIN PartOf x ON x.src = a.dst JOIN PartOf y
        ON y.src = b.dst AND y.dst = x.dst JOIN PartOf z ON z.src = c.dst AND z.dst = x.dst""",
    ),
    "q4": (
        """$m: Message  $m postTag|commentTag $t  $m postBy|commentBy $p
        $l likesPost|likesComment $m  $c onPost|onComment $m""",
        """SELECT count(*) FROM tag JOIN author USING (m) JOIN likes USING (m)
        JOIN reply USING (m)""",
    ),
    "q5": (
        """$m: Message  $m postTag|commentTag $t  $c onPost|onComment $m  $c commentTag $u
        $t != $u""",
        """SELECT count(*) FROM tag JOIN reply USING (m) JOIN CommentTag u ON u.src = reply.c
        WHERE u.dst <> tag.t""",
    ),
    "q6": (
        "$a: Person  $a <knows> $b  $b <knows> $c  $a != $c  $c interest $t",
        """SELECT count(*) FROM k a JOIN k b ON b.src = a.dst JOIN Interest i ON i.src = b.dst
        WHERE a.src <> b.dst""",
    ),
    "q7": (
        """$m: Message  $m postTag|commentTag $t  $m postBy|commentBy $p
        optional { $l likesPost|likesComment $m }  optional { $c onPost|onComment $m }""",
        """SELECT count(*) FROM tag JOIN author USING (m) LEFT JOIN likes USING (m)
        LEFT JOIN reply USING (m)""",
    ),
    "q8": (
        """$m: Message  $m postTag|commentTag $t  $c onPost|onComment $m  $c commentTag $u
        $t != $u  not { $c commentTag $t }""",
        """SELECT count(*) FROM tag JOIN reply USING (m) JOIN CommentTag u ON u.src = reply.c
        WHERE u.dst <> tag.t AND NOT EXISTS
        (SELECT 1 FROM CommentTag v WHERE v.src = reply.c AND v.dst = tag.t)""",
    ),
    "q9": (
        """$a: Person  $a <knows> $b  $b <knows> $c  $a != $c  $c interest $t
        not { $a <knows> $c }""",
        """SELECT count(*) FROM k a JOIN k b ON b.src = a.dst JOIN Interest i ON i.src = b.dst
        WHERE a.src <> b.dst AND NOT EXISTS
        (SELECT 1 FROM k c WHERE c.src = a.src AND c.dst = b.dst)""",
    ),
}


def draw_edges(seed: int) -> Iterator[tuple[str, str, str]]:
    """Each edge once. Posts and comments have the same ids."""
    random = Random(seed)
    for edge, (source, target, most) in ENDS.items():
        for each in range(SIZES[source]):
            least = 0 if most > 1 else 1
            count = random.randint(least, most)
            for other in random.sample(range(SIZES[target]), count):
                is_known = edge == "Knows" and other <= each
                if not is_known:
                    yield edge, f"n{each}", f"n{other}"


@pytest.fixture(scope="module")
def edges() -> list[tuple[str, str, str]]:
    return list(draw_edges(7))


@pytest.fixture(scope="module")
def graph(
    edges: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> LocalGraph:
    folder = tmp_path_factory.mktemp("lsqb")
    made = omnigraph.init(folder / "g", SCHEMA, durability=Durability.RELAXED)
    lines = []
    for name, size in SIZES.items():
        more = {"length": 1} if name in KEYS else {}
        keys = [{KEYS.get(name, "name"): f"n{each}", **more} for each in range(size)]
        lines += [json.dumps({"type": name, "data": each}) for each in keys]
    lines += [json.dumps({"edge": e, "from": a, "to": b}) for e, a, b in edges]
    source = Path(folder / "data.jsonl")
    source.write_text("\n".join(lines))
    made.load(str(source), mode="append", engine="local")
    return made


@pytest.fixture(scope="module")
def database(edges: list[tuple[str, str, str]]) -> Iterator[duckdb.DuckDBPyConnection]:
    made = duckdb.connect()
    for edge in ENDS:
        made.execute(f"CREATE TABLE {edge} (src TEXT, dst TEXT)")
        pairs = [[a, b] for name, a, b in edges if name == edge]
        made.executemany(f"INSERT INTO {edge} VALUES (?, ?)", pairs)
    made.execute(VIEWS)
    yield made
    made.close()


@pytest.mark.parametrize("name", QUESTIONS)
def test_lsqb_counts_as_duckdb_does(
    graph: LocalGraph, database: duckdb.DuckDBPyConnection, name: str
) -> None:
    pattern, sql = QUESTIONS[name]
    found = graph.query(f"query q() {{ match {{ {pattern} }} return {{ count(1) as n }} }}").rows()
    expected = database.execute(sql).fetchone()
    assert expected is not None
    assert found == [{"n": expected[0]}]
    assert expected[0] > 0
