"""Tools that follow and propose changes: the feed, differences, a branch for a task, proposals."""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from omnigraph.catalog.outline import estimate_tokens
from omnigraph.errors import BranchExists, CursorInvalid
from omnigraph.mcp.paging import (
    BUDGET,
    BUDGET_DEFAULT,
    CURSOR,
    PAGED,
    PageCursor,
    cut_page,
    read_cursor,
)
from omnigraph.mcp.tools import KEY, KEY_SCHEMA, Arguments, Schema, Tool
from omnigraph.sdk.client import GraphClient
from omnigraph.sdk.proposals import ProposalsClient, entry_document, proposal_document
from omnigraph.sdk.reviewing import change_document, diff_document, feed_document

CHANGES_DEFAULT: Final = 200
TASKS_MAX: Final = 100
"""How many branches may have the name of one task, each with its number."""

_TEXT: Final[Schema] = {"type": "string"}
_TYPES: Final[Schema] = {"type": "array", "items": _TEXT, "description": "Only these types."}


class ProposingGraph(Protocol):
    """A graph with proposals: every graph of the SDK is one."""

    @property
    def proposals(self) -> ProposalsClient: ...


@dataclass(frozen=True, slots=True)
class ReviewTools:
    graph: GraphClient
    actor: str | None

    def reading(self) -> list[Tool]:
        start = {"type": "string", "description": "now, beginning, or after:COMMIT; without cursor"}
        limit = {"type": "integer", "minimum": 1, "maximum": 8192, "default": CHANGES_DEFAULT}
        feed = {"branch": _TEXT, "start": start, "types": _TYPES, "limit": limit}
        sides = {
            "branch": {"type": "string", "description": "What has changed there."},
            "against": {"type": "string", "description": "Since it left this; main by default."},
            "types": _TYPES,
        }
        state = {"type": "string", "enum": ["open", "merged", "closed"]}
        return [
            Tool(
                "changes",
                "What each commit of a branch changed, oldest first.",
                self._changes,
                {**feed, **PAGED},
            ),
            Tool(
                "diff",
                "What a branch changed, entity by entity, with counts.",
                self._diff,
                {**sides, **PAGED},
                ("branch",),
            ),
            Tool("proposals_list", "The proposals, newest first.", self._list, {"state": state}),
            Tool(
                "proposal_show",
                "One proposal, and what it still lacks.",
                self._show,
                {"id": _TEXT},
                ("id",),
            ),
        ]

    def proposing(self) -> list[Tool]:
        title = {"type": "string", "description": "What the task is, in a few words."}
        opened = {
            "branch": _TEXT,
            "target": {"type": "string", "description": "main by default."},
            "title": _TEXT,
            "text": {"type": "string", "description": "Why, for the people who review it."},
            KEY: KEY_SCHEMA,
        }
        return [
            Tool(
                "task_begin",
                "Open a branch for a task. Write there with `change`, look at it with `diff`, then "
                "propose it with `proposal_open`.",
                self._begin,
                {"title": title, "from": {"type": "string", "description": "main by default."}},
                ("title",),
                is_writing=True,
            ),
            Tool(
                "proposal_open",
                "Propose to merge a branch; people review it.",
                self._open,
                opened,
                ("branch", "title"),
                is_writing=True,
            ),
        ]

    def _changes(self, given: Arguments) -> dict[str, Any]:
        """A page of the feed. A feed has cursors of its own, which a smaller page moves less."""
        limit = given.get("limit", CHANGES_DEFAULT)
        budget = given.get(BUDGET, BUDGET_DEFAULT)
        while True:
            page = self.graph.changes(
                given.get(CURSOR),
                start=None if CURSOR in given else given.get("start", "beginning"),
                branch=given.get("branch", "main"),
                types=given.get("types", ()),
                limit=limit,
            )
            document: dict[str, Any] = feed_document(page)
            tokens = estimate_tokens(json.dumps(document["blocks"], ensure_ascii=False))
            if tokens <= budget or limit == 1:
                return document
            limit = max(1, min(limit // 2, limit * budget // tokens))

    def _diff(self, given: Arguments) -> dict[str, Any]:
        cursor = read_cursor(given)
        if cursor.commit is None:
            against = given.get("against", "main")
            found = self.graph.diff(
                against, given["branch"], types=given.get("types", ()), since_merge_base=True
            )
        else:
            before, dots, after = cursor.commit.partition("..")
            if not dots:
                raise CursorInvalid("it is not a cursor of this tool")
            found = self.graph.diff(before, after, types=given.get("types", ()))
        document: dict[str, Any] = diff_document(found)
        heads = [each.commit for each in (found.before, found.after)]
        pinned = None if None in heads else "..".join(each.id for each in heads if each)
        # One entry more than an answer could hold tells whether there is a next page.
        reach = given.get(BUDGET, BUDGET_DEFAULT) + 1
        changes = islice(found.changes(skip=cursor.offset), reach)
        document["changes"] = [change_document(each) for each in changes]
        page = cut_page(document, "changes", given, PageCursor(0, pinned), reach)
        if CURSOR in page:
            count = cursor.offset + len(page["changes"])
            page[CURSOR] = PageCursor(count, pinned).encode()
        return page

    @property
    def _proposals(self) -> ProposalsClient:
        found = getattr(self.graph, "proposals", None)
        assert found is not None, "every graph of the SDK has proposals"
        return found  # type: ignore[no-any-return]

    def _list(self, given: Arguments) -> dict[str, Any]:
        found: Sequence[Any] = self._proposals.list(state=given.get("state"))
        return {"proposals": [entry_document(each) for each in found]}

    def _show(self, given: Arguments) -> dict[str, Any]:
        return dict(proposal_document(self._proposals.show(given["id"])))

    def _begin(self, given: Arguments) -> dict[str, Any]:
        source = given.get("from", "main")
        slug = _slug(given["title"])
        for number in range(1, TASKS_MAX + 1):
            name = f"task/{slug}" if number == 1 else f"task/{slug}-{number}"
            try:
                self.graph.branches.create(name, source=source, actor=self.actor)
            except BranchExists:
                continue
            return {"branch": name, "from": source}
        raise BranchExists(f"task/{slug}")

    def _open(self, given: Arguments) -> dict[str, Any]:
        standing = self._proposals.open(
            given["branch"],
            given.get("target", "main"),
            title=given["title"],
            text=given.get("text", ""),
            actor=self.actor,
            idempotency_key=given.get(KEY),
        )
        return dict(proposal_document(standing))


def _slug(title: str) -> str:
    """`Rehang the Übersee wing` is `rehang-the-ubersee-wing`."""
    decomposed = unicodedata.normalize("NFKD", title.lower())
    plain = "".join(each for each in decomposed if not unicodedata.combining(each))
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:40].strip("-") or "task"
