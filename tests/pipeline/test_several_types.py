"""Variables of several types: unions, interfaces, and traversals of several edges."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph
from omnigraph.errors import UsageError
from omnigraph.sdk.embedded.graph import LocalGraph
from omnigraph.storage.durability import Durability

SCHEMA = """
interface Message { content: String?  length: I32 }
node Person { name: String @key }
node Post implements Message { slug: String @key  title: String }
node Comment implements Message { slug: String @key }
node Tag { name: String @key }
edge Knows: Person -> Person { since: I32? }
edge Follows: Person -> Person { since: I32? }
edge LikesPost: Person -> Post
edge LikesComment: Person -> Comment
edge OnPost: Comment -> Post
edge OnComment: Comment -> Comment
edge Tagged: Post -> Tag
"""

NODES = [
    *(("Person", {"name": name}) for name in ("ann", "bob", "cid")),
    ("Post", {"slug": "x", "title": "T", "content": "hello", "length": 5}),
    ("Post", {"slug": "y", "title": "U", "length": 2}),
    ("Comment", {"slug": "x", "content": "hi", "length": 2}),
    ("Comment", {"slug": "z", "length": 7}),
    ("Tag", {"name": "t"}),
]
"""A post and a comment have the id `x`."""

EDGES = [
    ("Knows", "ann", "bob"),
    ("Follows", "ann", "bob"),
    ("Follows", "bob", "cid"),
    ("LikesPost", "ann", "x"),
    ("LikesComment", "ann", "x"),
    ("LikesComment", "bob", "z"),
    ("OnPost", "x", "y"),
    ("OnComment", "z", "x"),
    ("Tagged", "x", "t"),
]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalGraph:
    folder = tmp_path_factory.mktemp("types")
    made = omnigraph.init(folder / "g", SCHEMA, durability=Durability.RELAXED)
    lines = [json.dumps({"type": name, "data": data}) for name, data in NODES]
    lines += [json.dumps({"edge": e, "from": a, "to": b}) for e, a, b in EDGES]
    source = Path(folder / "data.jsonl")
    source.write_text("\n".join(lines))
    made.load(str(source), mode="append", engine="local")
    return made


CASES: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "a union": (
        (
            "match { $m: Post | Comment } return { $m.@type, $m.@id, $m.length }"
            " order { $m.length desc, $m }"
        ),
        [("Comment", "z", 7), ("Post", "x", 5), ("Comment", "x", 2), ("Post", "y", 2)],
    ),
    "an interface, and ties by type": (
        "match { $m: Message } return { $m.slug, $m.@type } order { $m.slug }",
        [("x", "Comment"), ("x", "Post"), ("y", "Post"), ("z", "Comment")],
    ),
    "a match of both, by index or not": (
        'match { $m: Message { slug: "x" } } return { $m.@type, $m.content } order { $m }',
        [("Comment", "hi"), ("Post", "hello")],
    ),
    "one of the types": (
        'match { $m: Message  $m.@type = "Post" } return { $m.slug } order { $m }',
        [("x",), ("y",)],
    ),
    "a traversal to several types": (
        (
            "match { $p: Person  $p likesPost|likesComment $m }"
            " return { $p.name, $m.@type, $m.slug } order { $p.name, $m }"
        ),
        [("ann", "Comment", "x"), ("ann", "Post", "x"), ("bob", "Comment", "z")],
    ),
    "a neighbour by two edges counts once": (
        "match { $p: Person  $p knows|follows $q } return { $p.name, $q.name } order { $p.name }",
        [("ann", "bob"), ("bob", "cid")],
    ),
    "edges count each": (
        (
            "match { $p: Person  $p $e:knows|follows $q }"
            " return { $e.@type, $p.name } order { $e.@type, $p.name }"
        ),
        [("Follows", "ann"), ("Follows", "bob"), ("Knows", "ann")],
    ),
    "an edge that only one type has": (
        "match { $m: Message  $m tagged $t } return { $m.@type, $t.name, $t.@type }",
        [("Post", "t", "Tag")],
    ),
    "a node is not one of the other type with its id": (
        (
            "match { $a: Message  $b: Message  $a.slug = $b.slug  $a != $b }"
            " return { $a.@type } order { $a.@type }"
        ),
        [("Comment",), ("Post",)],
    ),
    "identity with a variable of one type": (
        "match { $a: Message  $b: Post  $a = $b } return { $a.@type, $a.slug } order { $a }",
        [("Post", "x"), ("Post", "y")],
    ),
    "a negation": (
        "match { $m: Message  not { $p likesPost|likesComment $m } } return { $m.@type, $m.slug }",
        [("Post", "y")],
    ),
    "a block of one of the edges": (
        "match { $m: Message  exists { $p likesPost $m } } return { $m.@type, $m.slug }",
        [("Post", "x")],
    ),
    "a count": (
        "match { $p: Person  count { $p likesPost|likesComment $m } > 1 } return { $p.name }",
        [("ann",)],
    ),
    "an optional part": (
        (
            "match { $p: Person  optional { $p likesPost|likesComment $m } }"
            " return { $p.name, $m.@type as t } order { $p.name, t }"
        ),
        [("ann", "Comment"), ("ann", "Post"), ("bob", "Comment"), ("cid", None)],
    ),
    "groups, and distinct nodes": (
        (
            "match { $p: Person  optional { $p likesPost|likesComment $m } }"
            " return { count($m) as n, count(distinct $m) as d, count(distinct $m.slug) as s }"
        ),
        [(3, 3, 2)],
    ),
    "nodes as group keys": (
        (
            "match { $m: Message  optional { $p likesPost|likesComment $m } }"
            " return { $m, count($p) as n } order { $m } limit 2"
        ),
        [
            ({"@id": "x", "@type": "Comment", "content": "hi", "length": 2, "slug": "x"}, 1),
            ({"@id": "x", "@type": "Post", "content": "hello", "length": 5, "slug": "x"}, 1),
        ],
    ),
}

HOPS: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "hops of mixed edges": (
        (
            'match { $p: Person { name: "ann" }  $p knows|follows{1,3} $q }'
            " return { $q.name } order { $q.name }"
        ),
        [("bob",), ("cid",)],
    ),
    "hops through several types": (
        (
            'match { $c: Comment { slug: "z" }  $c onPost|onComment{1,} $m }'
            " return { $m.@type, $m.slug } order { $m.slug }"
        ),
        [("Comment", "x"), ("Post", "y")],
    ),
    "hops that must end at one type": (
        (
            'match { $m: Post  $c: Comment { slug: "z" }  $c onPost|onComment{1,3} $m }'
            " return { $m.slug }"
        ),
        [("y",)],
    ),
    "no hop": (
        (
            "match { $a: Message  $b: Message  $a onComment{0,1} $b  $a.length = 2 }"
            " return { $a.@type, $b.@type, $b.slug } order { $a.@type }"
        ),
        [("Comment", "Comment", "x"), ("Post", "Post", "y")],
    ),
}


@pytest.mark.parametrize("name", [*CASES, *HOPS])
def test_a_read_of_several_types(graph: LocalGraph, name: str) -> None:
    body, expected = {**CASES, **HOPS}[name]
    found = graph.query(f"query q() {{ {body} }}")
    assert [tuple(row.values()) for row in found.rows()] == expected


def test_one_read_on_spark_of_every_kind(graph: LocalGraph, spark: SparkSession) -> None:
    """The laws try all forms; here are the joins that types take part in."""
    for name in ("a traversal to several types", "an optional part", "a negation"):
        body, expected = CASES[name]
        found = graph.spark(spark).query(f"query q() {{ {body} }}").collect()
        assert [tuple(row) for row in found] == expected, name


def test_spark_searches_over_several_edges(graph: LocalGraph, spark: SparkSession) -> None:
    for name in ("hops of mixed edges", "hops that must end at one type", "no hop"):
        body, expected = HOPS[name]
        found = graph.spark(spark).query(f"query q() {{ {body} }}").collect()
        assert [tuple(row) for row in found] == expected, name


def test_spark_needs_a_bound_of_hops(graph: LocalGraph, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"write OnComment\|OnPost\{1,5\}"):
        graph.spark(spark).query(f"query q() {{ {HOPS['hops through several types'][0]} }}")
