"""Twenty-five questions of the kinds that LDBC asks, each in three languages.

`is` are short reads around one entity, `ic` are walks of a few hops from one person, `q` are
counts of a pattern in the whole graph, `all` are aggregates over whole tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from social_data import DAYS, Network

TWO_HOPS = """
    SELECT dst AS name FROM friends WHERE src = $person
    UNION SELECT b.dst FROM friends a JOIN friends b ON b.src = a.dst WHERE a.src = $person"""
NEAR = f"(SELECT name FROM ({TWO_HOPS}) WHERE name <> $person) near"
THREE_HOPS = f"""(SELECT name FROM ({TWO_HOPS}
    UNION SELECT c.dst FROM friends a JOIN friends b ON b.src = a.dst
    JOIN friends c ON c.src = b.dst WHERE a.src = $person) WHERE name <> $person) near"""

ME = "$me: Person { name: $person }"
BUG_ME = "(me:Person {name: $person})"
BUG_NEAR = f"MATCH {BUG_ME}-[:Knows*1..2]-(f:Person) WHERE f.name <> $person WITH DISTINCT f "


@dataclass(frozen=True)
class Question:
    name: str
    needs: str
    """The parameters."""
    gq: str
    """Match and what follows; the head is made of the parameters."""
    cypher: str
    sql: str

    @property
    def is_point_read(self) -> bool:
        return self.name.startswith("is")


class Parameters:
    """The parameters of the questions for one network."""

    def __init__(self, network: Network) -> None:
        self._known: Mapping[str, tuple[str, object]] = {
            "person": ("String", network.usual_person()),
            "post": ("String", network.edges["ReplyTo"]["dst"][0].as_py()),
            "comment": ("String", network.edges["ReplyTo"]["src"][0].as_py()),
            "tag": ("String", network.edges["PostTag"]["dst"][0].as_py()),
            "kind": ("String", "kind3"),
            "first": ("String", "first7"),
            "country": ("String", network.edges["PartOf"]["dst"][0].as_py()),
            "low": ("I64", 300 * DAYS),
            "high": ("I64", 700 * DAYS),
        }

    def of(self, question: Question) -> dict[str, object]:
        return {name: self._known[name][1] for name in question.needs.split()}

    def program(self, question: Question) -> str:
        declared = ", ".join(f"${name}: {self._known[name][0]}" for name in question.needs.split())
        return f"query q({declared}) {{ {question.gq} }}"


QUESTIONS: Sequence[Question] = (
    Question(
        "is1 profile",
        "person",
        f"match {{ {ME} $me livesIn $c }} return {{ $me.first, $me.born, $c.name }}",
        f"MATCH {BUG_ME}-[:LivesIn]->(c:City) RETURN me.first, me.born, c.name",
        "SELECT first, born, dst FROM Person JOIN LivesIn ON src = name WHERE name = $person",
    ),
    Question(
        "is3 friends",
        "person",
        f"match {{ {ME} $me $k:<knows> $f }} return {{ $f.name, $f.first, $k.since as since }} "
        "order { since desc, $f.name }",
        f"MATCH {BUG_ME}-[k:Knows]-(f:Person) RETURN f.name, f.first, k.since "
        "ORDER BY k.since DESC, f.name",
        "SELECT f.name, f.first, k.since FROM friends k JOIN Person f ON f.name = k.dst "
        "WHERE k.src = $person ORDER BY k.since DESC, f.name",
    ),
    Question(
        "is4 content of a post",
        "post",
        "match { $m: Post { name: $post } } return { $m.created, $m.length }",
        "MATCH (m:Post {name: $post}) RETURN m.created, m.length",
        "SELECT created, length FROM Post WHERE name = $post",
    ),
    Question(
        "is5 author of a comment",
        "comment",
        "match { $m: Comment { name: $comment } $m commentBy $a } return { $a.name, $a.first }",
        "MATCH (m:Comment {name: $comment})-[:CommentBy]->(a:Person) RETURN a.name, a.first",
        "SELECT a.name, a.first FROM CommentBy b JOIN Person a ON a.name = b.dst "
        "WHERE b.src = $comment",
    ),
    Question(
        "is6 forum of a comment",
        "comment",
        "match { $m: Comment { name: $comment } $m replyTo $p $f holds $p } "
        "return { $f.name, $f.title }",
        "MATCH (m:Comment {name: $comment})-[:ReplyTo]->(p:Post)<-[:Holds]-(f:Forum) "
        "RETURN f.name, f.title",
        "SELECT f.name, f.title FROM ReplyTo r JOIN Holds h ON h.dst = r.dst "
        "JOIN Forum f ON f.name = h.src WHERE r.src = $comment",
    ),
    Question(
        "is7 replies to a post",
        "post",
        "match { $p: Post { name: $post } $m replyTo $p $m commentBy $a } "
        "return { $m.name, $m.created, $a.name } order { $m.created desc, $m.name }",
        "MATCH (p:Post {name: $post})<-[:ReplyTo]-(m:Comment)-[:CommentBy]->(a:Person) "
        "RETURN m.name, m.created, a.name ORDER BY m.created DESC, m.name",
        "SELECT m.name, m.created, b.dst FROM ReplyTo r JOIN Comment m ON m.name = r.src "
        "JOIN CommentBy b ON b.src = m.name WHERE r.dst = $post ORDER BY m.created DESC, m.name",
    ),
    Question(
        "ic1 three hops by first name",
        "person first",
        f"match {{ {ME} $me <knows>{{1,3}} $f $f.first = $first }} return {{ $f.name, $f.born }} "
        "order { $f.name } limit 20",
        f"MATCH {BUG_ME}-[:Knows* SHORTEST 1..3]-(f:Person) WHERE f.first = $first "
        "AND f.name <> $person RETURN f.name, f.born ORDER BY f.name LIMIT 20",
        f"SELECT f.name, f.born FROM {THREE_HOPS} JOIN Person f ON f.name = near.name "
        "WHERE f.first = $first ORDER BY f.name LIMIT 20",
    ),
    Question(
        "ic2 recent posts of friends",
        "person high",
        f"match {{ {ME} $me <knows> $f $m postBy $f $m.created <= $high }} "
        "return { $f.name, $m.name, $m.created, $m.language, $m.length } "
        "order { $m.created desc, $m.name } limit 20",
        f"MATCH {BUG_ME}-[:Knows]-(f:Person)<-[:PostBy]-(m:Post) WHERE m.created <= $high "
        "RETURN f.name, m.name, m.created, m.language, m.length "
        "ORDER BY m.created DESC, m.name LIMIT 20",
        "SELECT k.dst, m.name, m.created, m.language, m.length FROM friends k "
        "JOIN PostBy b ON b.dst = k.dst JOIN Post m ON m.name = b.src "
        "WHERE k.src = $person AND m.created <= $high "
        "ORDER BY m.created DESC, m.name LIMIT 20",
    ),
    Question(
        "ic4 tags of friends' posts",
        "person low high",
        f"match {{ {ME} $me <knows> $f $m postBy $f $m.created >= $low $m.created < $high "
        "$m postTag $t } return { $t.name, count($m) as n } order { n desc, $t.name } limit 10",
        f"MATCH {BUG_ME}-[:Knows]-(f:Person)<-[:PostBy]-(m:Post)-[:PostTag]->(t:Tag) "
        "WHERE m.created >= $low AND m.created < $high RETURN t.name, count(m) AS n "
        "ORDER BY n DESC, t.name LIMIT 10",
        "SELECT t.dst, count(*) AS n FROM friends k JOIN PostBy b ON b.dst = k.dst "
        "JOIN Post m ON m.name = b.src JOIN PostTag t ON t.src = m.name WHERE k.src = $person "
        "AND m.created >= $low AND m.created < $high GROUP BY t.dst ORDER BY n DESC, t.dst "
        "LIMIT 10",
    ),
    Question(
        "ic5 forums that friends of friends joined",
        "person high",
        f"match {{ {ME} $me <knows>{{1,2}} $f $g $j:member $f $j.joined > $high }} "
        "return { $g.name, count($f) as n } order { n desc, $g.name } limit 20",
        BUG_NEAR + "MATCH (f)<-[j:Member]-(g:Forum) WHERE j.joined > $high "
        "RETURN g.name, count(f) AS n ORDER BY n DESC, g.name LIMIT 20",
        f"SELECT j.src, count(*) AS n FROM {NEAR} JOIN Member j ON j.dst = near.name "
        "WHERE j.joined > $high GROUP BY j.src ORDER BY n DESC, j.src LIMIT 20",
    ),
    Question(
        "ic6 tags beside a tag",
        "person tag",
        f"match {{ {ME} $me <knows>{{1,2}} $f $m postBy $f $t: Tag {{ name: $tag }} "
        "$m postTag $t $m postTag $u $u != $t } return { $u.name, count($m) as n } "
        "order { n desc, $u.name } limit 10",
        BUG_NEAR + "MATCH (f)<-[:PostBy]-(m:Post)-[:PostTag]->(t:Tag {name: $tag}), "
        "(m)-[:PostTag]->(u:Tag) WHERE u.name <> $tag RETURN u.name, count(m) AS n "
        "ORDER BY n DESC, u.name LIMIT 10",
        f"SELECT u.dst, count(*) AS n FROM {NEAR} JOIN PostBy b ON b.dst = near.name "
        "JOIN PostTag t ON t.src = b.src AND t.dst = $tag "
        "JOIN PostTag u ON u.src = b.src AND u.dst <> $tag "
        "GROUP BY u.dst ORDER BY n DESC, u.dst LIMIT 10",
    ),
    Question(
        "ic7 recent likes",
        "person",
        f"match {{ {ME} $m postBy $me $l $k:likes $m }} return {{ $l.name, $m.name, $k.at as at }} "
        "order { at desc, $l.name, $m.name } limit 20",
        f"MATCH {BUG_ME}<-[:PostBy]-(m:Post)<-[k:Likes]-(l:Person) RETURN l.name, m.name, k.at "
        "ORDER BY k.at DESC, l.name, m.name LIMIT 20",
        'SELECT k.src, k.dst, k."at" FROM PostBy b JOIN Likes k ON k.dst = b.src '
        'WHERE b.dst = $person ORDER BY k."at" DESC, k.src, k.dst LIMIT 20',
    ),
    Question(
        "ic8 recent replies",
        "person",
        f"match {{ {ME} $m postBy $me $c replyTo $m $c commentBy $a }} "
        "return { $a.name, $c.name, $c.created } order { $c.created desc, $c.name } limit 20",
        f"MATCH {BUG_ME}<-[:PostBy]-(m:Post)<-[:ReplyTo]-(c:Comment)-[:CommentBy]->(a:Person) "
        "RETURN a.name, c.name, c.created ORDER BY c.created DESC, c.name LIMIT 20",
        "SELECT a.dst, c.name, c.created FROM PostBy b JOIN ReplyTo r ON r.dst = b.src "
        "JOIN Comment c ON c.name = r.src JOIN CommentBy a ON a.src = c.name "
        "WHERE b.dst = $person ORDER BY c.created DESC, c.name LIMIT 20",
    ),
    Question(
        "ic9 recent posts of friends of friends",
        "person high",
        f"match {{ {ME} $me <knows>{{1,2}} $f $m postBy $f $m.created <= $high }} "
        "return { $f.name, $m.name, $m.created, $m.language, $m.length } "
        "order { $m.created desc, $m.name } limit 20",
        BUG_NEAR + "MATCH (f)<-[:PostBy]-(m:Post) WHERE m.created <= $high "
        "RETURN f.name, m.name, m.created, m.language, m.length "
        "ORDER BY m.created DESC, m.name LIMIT 20",
        f"SELECT near.name, m.name, m.created, m.language, m.length FROM {NEAR} "
        "JOIN PostBy b ON b.dst = near.name JOIN Post m ON m.name = b.src "
        "WHERE m.created <= $high ORDER BY m.created DESC, m.name LIMIT 20",
    ),
    Question(
        "ic11 friends of friends in a country",
        "person country",
        f"match {{ {ME} $me <knows>{{1,2}} $f $f livesIn $c $k: Country {{ name: $country }} "
        "$c partOf $k } return { $f.name, $f.born, $c.name } order { $f.born, $f.name } limit 10",
        BUG_NEAR + "MATCH (f)-[:LivesIn]->(c:City)-[:PartOf]->(k:Country {name: $country}) "
        "RETURN f.name, f.born, c.name ORDER BY f.born, f.name LIMIT 10",
        f"SELECT f.name, f.born, l.dst FROM {NEAR} JOIN Person f ON f.name = near.name "
        "JOIN LivesIn l ON l.src = f.name JOIN PartOf o ON o.src = l.dst AND o.dst = $country "
        "ORDER BY f.born, f.name LIMIT 10",
    ),
    Question(
        "ic12 friends' replies by kind of tag",
        "person kind",
        f"match {{ {ME} $me <knows> $f $c commentBy $f $c replyTo $m $m postTag $t "
        "$t.kind = $kind } return { $f.name, count($c) as n } order { n desc, $f.name } limit 20",
        f"MATCH {BUG_ME}-[:Knows]-(f:Person)<-[:CommentBy]-(c:Comment)-[:ReplyTo]->(m:Post)"
        "-[:PostTag]->(t:Tag) WHERE t.kind = $kind RETURN f.name, count(c) AS n "
        "ORDER BY n DESC, f.name LIMIT 20",
        "SELECT k.dst, count(*) AS n FROM friends k JOIN CommentBy b ON b.dst = k.dst "
        "JOIN ReplyTo r ON r.src = b.src JOIN PostTag g ON g.src = r.dst "
        "JOIN Tag t ON t.name = g.dst WHERE k.src = $person AND t.kind = $kind "
        "GROUP BY k.dst ORDER BY n DESC, k.dst LIMIT 20",
    ),
    Question(
        "q1 a long chain",
        "country",
        "match { $k: Country { name: $country } $y partOf $k $p livesIn $y $f member $p "
        "$f holds $m $c replyTo $m $c commentTag $t } return { count($t) as n }",
        "MATCH (k:Country {name: $country})<-[:PartOf]-(:City)<-[:LivesIn]-(:Person)<-[:Member]-"
        "(:Forum)-[:Holds]->(:Post)<-[:ReplyTo]-(:Comment)-[:CommentTag]->(:Tag) RETURN count(*)",
        "SELECT count(*) FROM PartOf o JOIN LivesIn l ON l.dst = o.src "
        "JOIN Member e ON e.dst = l.src JOIN Holds h ON h.src = e.src "
        "JOIN ReplyTo r ON r.dst = h.dst JOIN CommentTag t ON t.src = r.src "
        "WHERE o.dst = $country",
    ),
    Question(
        "q2 friends who answer friends",
        "",
        "match { $a: Person $a <knows> $b $m postBy $b $c replyTo $m $c commentBy $a } "
        "return { count($c) as n }",
        "MATCH (a:Person)-[:Knows]-(b:Person)<-[:PostBy]-(m:Post)<-[:ReplyTo]-(c:Comment)"
        "-[:CommentBy]->(a) RETURN count(*)",
        "SELECT count(*) FROM CommentBy x JOIN ReplyTo r ON r.src = x.src "
        "JOIN PostBy y ON y.src = r.dst JOIN friends k ON k.src = x.dst AND k.dst = y.dst",
    ),
    Question(
        "q3 triangles in one country",
        "country",
        "match { $k: Country { name: $country } $x partOf $k $y partOf $k $z partOf $k "
        "$a livesIn $x $b livesIn $y $c livesIn $z $a knows $b $b knows $c $a knows $c } "
        "return { count($c) as n }",
        "MATCH (k:Country {name: $country})<-[:PartOf]-(:City)<-[:LivesIn]-(a:Person), "
        "(k)<-[:PartOf]-(:City)<-[:LivesIn]-(b:Person), "
        "(k)<-[:PartOf]-(:City)<-[:LivesIn]-(c:Person), "
        "(a)-[:Knows]->(b), (b)-[:Knows]->(c), (a)-[:Knows]->(c) RETURN count(*)",
        "WITH local AS (SELECT l.src AS name FROM LivesIn l JOIN PartOf o ON o.src = l.dst "
        "WHERE o.dst = $country) SELECT count(*) FROM local a JOIN Knows k1 ON k1.src = a.name "
        "JOIN local b ON b.name = k1.dst JOIN Knows k2 ON k2.src = b.name "
        "JOIN local c ON c.name = k2.dst JOIN Knows k3 ON k3.src = a.name AND k3.dst = c.name",
    ),
    Question(
        "q4 stars around posts",
        "",
        "match { $m: Post $m postTag $t $m postBy $a $l likes $m $c replyTo $m } "
        "return { count($c) as n }",
        "MATCH (t:Tag)<-[:PostTag]-(m:Post)-[:PostBy]->(a:Person), (l:Person)-[:Likes]->(m), "
        "(c:Comment)-[:ReplyTo]->(m) RETURN count(*)",
        "SELECT count(*) FROM PostTag t JOIN PostBy b ON b.src = t.src "
        "JOIN Likes l ON l.dst = t.src JOIN ReplyTo r ON r.dst = t.src",
    ),
    Question(
        "q6 interests of friends of friends",
        "",
        "match { $a: Person $a <knows> $b $b <knows> $c $a != $c $c interest $t } "
        "return { count($t) as n }",
        "MATCH (a:Person)-[:Knows]-(b:Person)-[:Knows]-(c:Person)-[:Interest]->(t:Tag) "
        "WHERE a.name <> c.name RETURN count(*)",
        "SELECT count(*) FROM friends x JOIN friends y ON y.src = x.dst AND y.dst <> x.src "
        "JOIN Interest i ON i.src = y.dst",
    ),
    Question(
        "q8 replies without the tag of their post",
        "",
        "match { $m: Post $m postTag $t $c replyTo $m $c commentTag $u $u != $t "
        "not { $c commentTag $t } } return { count($u) as n }",
        "MATCH (t:Tag)<-[:PostTag]-(m:Post)<-[:ReplyTo]-(c:Comment)-[:CommentTag]->(u:Tag) "
        "WHERE u.name <> t.name AND NOT EXISTS { MATCH (c)-[:CommentTag]->(t) } RETURN count(*)",
        "SELECT count(*) FROM PostTag t JOIN ReplyTo r ON r.dst = t.src "
        "JOIN CommentTag u ON u.src = r.src AND u.dst <> t.dst WHERE NOT EXISTS "
        "(SELECT 1 FROM CommentTag v WHERE v.src = r.src AND v.dst = t.dst)",
    ),
    Question(
        "q9 interests of friends of friends who are no friends",
        "",
        "match { $a: Person $a <knows> $b $b <knows> $c $a != $c $c interest $t "
        "not { $a <knows> $c } } return { count($t) as n }",
        "MATCH (a:Person)-[:Knows]-(b:Person)-[:Knows]-(c:Person)-[:Interest]->(t:Tag) "
        "WHERE a.name <> c.name AND NOT EXISTS { MATCH (a)-[:Knows]-(c) } RETURN count(*)",
        "SELECT count(*) FROM friends x JOIN friends y ON y.src = x.dst AND y.dst <> x.src "
        "JOIN Interest i ON i.src = y.dst WHERE NOT EXISTS "
        "(SELECT 1 FROM friends z WHERE z.src = x.src AND z.dst = y.dst)",
    ),
    Question(
        "all posts by language",
        "low",
        "match { $m: Post $m.created >= $low } return { $m.language, count($m) as n, "
        "avg($m.length) as mean }",
        "MATCH (m:Post) WHERE m.created >= $low RETURN m.language, count(*), avg(m.length)",
        "SELECT language, count(*), avg(length) FROM Post WHERE created >= $low GROUP BY language",
    ),
    Question(
        "all authors by posts",
        "",
        "match { $m: Post $m postBy $a } return { $a.name, count($m) as n } "
        "order { n desc, $a.name } limit 10",
        "MATCH (m:Post)-[:PostBy]->(a:Person) RETURN a.name, count(*) AS n "
        "ORDER BY n DESC, a.name LIMIT 10",
        "SELECT dst, count(*) AS n FROM PostBy GROUP BY dst ORDER BY n DESC, dst LIMIT 10",
    ),
)
