"""A small random network for `examples/social`: the same rows for a graph and for tables.

Ids are unique among messages, among places and among organisations, as in the benchmark.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from random import Random  # noqa: TID251 - a test chooses its own seed

import pyarrow as pa

Row = Mapping[str, object]
End = tuple[str, int]
"""The type of a node, and its id."""

START = datetime(2012, 1, 1, tzinfo=UTC)
DAYS = 400
PEOPLE, FORUMS, POSTS, COMMENTS = 16, 5, 30, 60
FIRST_NAMES = ("Ada", "Bela", "Chen")
CITIES = {10: 1, 11: 1, 12: 2, 13: 2, 14: 3}
"""The country of each city."""
COUNTRIES = {1: "Aland", 2: "Borduria", 3: "Cascadia"}
CLASSES = {1: None, 2: 1, 3: 2, 4: 1}
"""The class above each class of tags."""
TAGS = {20: 2, 21: 3, 22: 3, 23: 4, 24: 1, 25: 2}
"""The class of each tag."""
BETWEEN_SEVERAL = {"HasCreator", "HasTag", "IsLocatedIn", "IsPartOf", "Likes", "ReplyOf"}
"""The edges whose ends say their types."""
UNIVERSITIES, COMPANIES = (100, 101, 102), (200, 201, 202, 203)


@dataclass(frozen=True, slots=True)
class Edge:
    name: str
    source: End
    target: End
    properties: Row


@dataclass(frozen=True, slots=True)
class Network:
    nodes: Mapping[str, Sequence[Row]]
    edges: Sequence[Edge]

    def lines(self) -> Iterator[str]:
        """As JSON lines."""
        for type_name, rows in self.nodes.items():
            for row in rows:
                yield json.dumps({"type": type_name, "data": row}, default=_spell)
        for each in self.edges:
            source, target = (
                {type_name: str(number)} if each.name in BETWEEN_SEVERAL else str(number)
                for type_name, number in (each.source, each.target)
            )
            record = {"edge": each.name, "from": source, "to": target, "data": each.properties}
            yield json.dumps(record, default=_spell)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """A table for each type. The ends of an edge are `src` and `dst`, with their types."""
        for type_name, rows in self.nodes.items():
            yield type_name, pa.Table.from_pylist([*map(_naive, rows)])
        for name in sorted({each.name for each in self.edges}):
            rows = [
                {
                    "src": each.source[1],
                    "src_type": each.source[0],
                    "dst": each.target[1],
                    "dst_type": each.target[0],
                    **_naive(each.properties),
                }
                for each in self.edges
                if each.name == name
            ]
            yield name, pa.Table.from_pylist(rows)


def _spell(value: object) -> str:
    assert isinstance(value, date)
    return value.isoformat()


def _naive(row: Row) -> dict[str, object]:
    """Instants without a zone, which need no calendar of zones."""
    return {
        name: each.replace(tzinfo=None) if isinstance(each, datetime) else each
        for name, each in row.items()
    }


def draw_network(seed: int) -> Network:
    return _Drawing(Random(seed)).network()


class _Drawing:
    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._edges: list[Edge] = []
        self._authors: dict[End, int] = {}
        """Of each message."""

    def network(self) -> Network:
        people = [self._person(each) for each in range(PEOPLE)]
        posts = [self._message("Post", each) for each in range(POSTS)]
        comments = [self._message("Comment", POSTS + each) for each in range(COMMENTS)]
        forums = [
            {"id": each, "title": f"Forum {each}", "creationDate": self._instant()}
            for each in range(FORUMS)
        ]
        self._places()
        self._friends()
        self._forums()
        self._threads()
        self._likes()
        nodes: dict[str, Sequence[Row]] = {
            "Person": people,
            "Post": posts,
            "Comment": comments,
            "Forum": forums,
            "City": [_named(each, "City") for each in CITIES],
            "Country": [_named(each, name, bare=True) for each, name in COUNTRIES.items()],
            "Continent": [_named(0, "Continent")],
            "University": [_named(each, "University") for each in UNIVERSITIES],
            "Company": [_named(each, "Company") for each in COMPANIES],
            "Tag": [_named(each, "Tag") for each in TAGS],
            "TagClass": [_named(each, "Class") for each in CLASSES],
        }
        return Network(nodes, self._edges)

    # nodes

    def _instant(self) -> datetime:
        """Not many different ones, so that orders have ties."""
        days, hours = self._dice.randrange(DAYS), self._dice.randrange(3)
        return START + timedelta(days=days, hours=8 * hours, minutes=7)

    def _person(self, number: int) -> Row:
        dice = self._dice
        return {
            "id": number,
            "firstName": dice.choice(FIRST_NAMES),
            "lastName": dice.choice(("Okoro", "Park", "Quist")),
            "gender": dice.choice(("female", "male")),
            "birthday": date(1980, 1, 1) + timedelta(days=dice.randrange(730)),
            "creationDate": self._instant(),
            "locationIP": f"10.0.0.{number}",
            "browserUsed": dice.choice(("Lynx", "Mosaic")),
            "email": [f"p{number}@{each}.example" for each in range(dice.randrange(3))],
            "speaks": sorted(dice.sample(["de", "en", "pt"], dice.randint(1, 2))),
        }

    def _message(self, type_name: str, number: int) -> Row:
        has_image = type_name == "Post" and self._dice.random() < 0.3
        image = f"photo{number}.jpg" if has_image else None
        self._authors[type_name, number] = self._dice.randrange(PEOPLE)
        row = {
            "id": number,
            "creationDate": self._instant(),
            "browserUsed": "Lynx",
            "locationIP": "10.0.0.1",
            "content": None if has_image else f"{type_name} number {number}",
            "imageFile": image,
            "length": self._dice.randrange(200),
        }
        return row | ({"language": "en"} if type_name == "Post" else {})

    # edges

    def _link(self, name: str, source: End, target: End, **properties: object) -> None:
        self._edges.append(Edge(name, source, target, properties))

    def _some(self, pool: Sequence[int], most: int, least: int = 0) -> list[int]:
        return self._dice.sample(pool, self._dice.randint(least, most))

    def _places(self) -> None:
        for city, country in CITIES.items():
            self._link("IsPartOf", ("City", city), ("Country", country))
        for country in COUNTRIES:
            self._link("IsPartOf", ("Country", country), ("Continent", 0))
        for each in UNIVERSITIES:
            self._locate("University", each, "City", list(CITIES))
        for each in COMPANIES:
            self._locate("Company", each, "Country", list(COUNTRIES))
        for tag, class_ in TAGS.items():
            self._link("HasType", ("Tag", tag), ("TagClass", class_))
        for class_, above in CLASSES.items():
            if above is not None:
                self._link("IsSubclassOf", ("TagClass", class_), ("TagClass", above))

    def _locate(self, type_name: str, number: int, place: str, places: Sequence[int]) -> None:
        target = (place, self._dice.choice(places))
        self._link("IsLocatedIn", (type_name, number), target)

    def _friends(self) -> None:
        """The last person has no friend."""
        for one in range(PEOPLE):
            person = ("Person", one)
            self._locate("Person", one, "City", list(CITIES))
            for other in self._some(range(one + 1, PEOPLE - 1), 4) if one < PEOPLE - 5 else ():
                self._link("Knows", person, ("Person", other), creationDate=self._instant())
            for tag in self._some([*TAGS], 3, 1):
                self._link("HasInterest", person, ("Tag", tag))
            for each in self._some(UNIVERSITIES, 2):
                year = self._dice.randint(1998, 2004)
                self._link("StudyAt", person, ("University", each), classYear=year)
            for each in self._some(COMPANIES, 2):
                year = self._dice.randint(2000, 2010)
                self._link("WorkAt", person, ("Company", each), workFrom=year)

    def _forums(self) -> None:
        for each in range(FORUMS):
            forum = ("Forum", each)
            moderator = self._dice.randrange(PEOPLE)
            self._link("HasModerator", forum, ("Person", moderator))
            for member in self._some(range(PEOPLE), 10, 6):
                joined = self._instant()
                self._link("HasMember", forum, ("Person", member), joinDate=joined)
            for tag in self._some([*TAGS], 2):
                self._link("HasTag", forum, ("Tag", tag))
        for post in range(POSTS):
            forum = ("Forum", self._dice.randrange(FORUMS))
            self._link("ContainerOf", forum, ("Post", post))

    def _threads(self) -> None:
        """Of the messages before it, a comment replies to one of the newest."""
        messages = [*self._authors]
        for at, message in enumerate(messages):
            author = ("Person", self._authors[message])
            self._link("HasCreator", message, author)
            self._locate(*message, "Country", list(COUNTRIES))
            for tag in self._some([*TAGS], 3):
                self._link("HasTag", message, ("Tag", tag))
            if message[0] == "Comment":
                self._link("ReplyOf", message, self._dice.choice(messages[max(0, at - 35) : at]))

    def _likes(self) -> None:
        for message in self._authors:
            for liker in self._some(range(PEOPLE), 2):
                at = self._instant() + timedelta(days=DAYS)
                self._link("Likes", ("Person", liker), message, creationDate=at)


def _named(number: int, name: str, *, bare: bool = False) -> Row:
    text = name if bare else f"{name} {number}"
    return {"id": number, "name": text, "url": f"https://social.example/{number}"}
