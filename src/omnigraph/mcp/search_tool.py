"""One tool that finds nodes by words, without a query: full-text search over a type's texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from omnigraph.catalog.model import NodeType
from omnigraph.errors import TypeUnknown, UsageError
from omnigraph.mcp.paging import PAGED, PageCursor, cut_page, read_cursor
from omnigraph.mcp.tools import Arguments, Schema, Tool
from omnigraph.sdk.client import GraphClient

FOUND_MAX: Final = 50
RANK_DAMPING: Final = 60
"""As for `rrf` of the language: how much a place near the top counts."""

_TEXT: Final[Schema] = {"type": "string"}


@dataclass(frozen=True, slots=True)
class SearchTool:
    graph: GraphClient

    def tool(self) -> Tool:
        return Tool(
            "search",
            "Find nodes of one type by words in their texts, best first.",
            self._search,
            {
                "type": {"type": "string", "description": "The node type."},
                "words": _TEXT,
                "properties": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "Only these String properties; all by default.",
                },
                "branch": {"type": "string", "description": "The branch; main by default."},
                **PAGED,
            },
            ("type", "words"),
        )

    def _search(self, given: Arguments) -> dict[str, Any]:
        node = self.graph.catalog.node(given["type"])
        if node is None:
            raise TypeUnknown(given["type"])
        cursor = read_cursor(given)
        commit = cursor.commit or find_commit(self.graph, given.get("branch"))
        scores: dict[str, float] = {}
        rows: dict[str, dict[str, Any]] = {}
        for name in _texts_of(node, given.get("properties")):
            for place, row in enumerate(self._rank(node, name, given["words"], commit), start=1):
                identity = row["@id"]
                rows[identity] = row
                scores[identity] = scores.get(identity, 0.0) + 1 / (RANK_DAMPING + place)
        best = sorted(scores, key=lambda each: (-scores[each], each))
        document = {"type": node.name, "rows": [rows[each] for each in best]}
        return cut_page(document, "rows", given, PageCursor(cursor.offset, commit), FOUND_MAX)

    def _rank(
        self, node: NodeType, name: str, words: str, commit: str | None
    ) -> Iterator[dict[str, Any]]:
        program = (
            f"query found($words: String) {{ match {{ $x: {node.name} }} return {{ $x as node }} "
            f"order {{ bm25($x.{name}, $words) }} limit {FOUND_MAX} }}"
        )
        found: dict[str, Any] = self.graph.query(
            program, {"words": words}, snapshot=commit
        ).document()
        for row in found["rows"]:
            yield row["node"]


def find_commit(graph: GraphClient, branch: str | None) -> str | None:
    """The head that a first answer reads, so that the next one reads the same."""
    head = graph.snapshot(branch).commit
    return None if head is None else head.id


def _texts_of(node: NodeType, chosen: list[str] | None) -> list[str]:
    """Raises UsageError for a property that is no text."""
    texts = [
        each.spelling
        for each in node.properties
        if each.type.is_string and not each.type.is_list and each.type.enum_values is None
    ]
    for name in chosen or ():
        if name not in texts:
            known = ", ".join(texts) or "none"
            raise UsageError(f"{node.name} has no text '{name}'; its texts are {known}")
    return texts if chosen is None else chosen
