"""A proposal as a value, its edits, and its JSON."""

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from omnigraph.errors import KeyReused, ObjectCorrupt, ProposalNotOpen, UsageError
from omnigraph.ids import BranchName, CommitId, is_encodable
from omnigraph.jsontext import read_json

FORMAT: Final = 1
TITLE_CHARACTERS_MAX: Final = 200
TEXT_BYTES_MAX: Final = 65_536
COMMENT_BYTES_MAX: Final = 16_384
COMMENTS_MAX: Final = 1_000
"""The file is read whole and replaced whole, so its size is bounded."""


class ProposalState(StrEnum):
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Approval:
    actor: str | None
    at_us: int
    source_head: CommitId
    """The head of the source that was approved. The approval holds for no other."""


@dataclass(frozen=True, slots=True)
class ProposalCheck:
    """What a check found in the merge of two heads."""

    name: str
    row_count: int | None
    """The rows that the query returned; None if it could not run."""
    source_head: CommitId
    target_head: CommitId
    at_us: int
    reason: str | None = None
    """Why the query could not run."""

    @property
    def passed(self) -> bool:
        return self.row_count == 0


@dataclass(frozen=True, slots=True)
class Comment:
    actor: str | None
    at_us: int
    text: str
    key: str | None = None
    """The idempotency key of the request."""


@dataclass(frozen=True, slots=True)
class Proposal:
    id: str
    title: str
    text: str
    source: BranchName
    target: BranchName
    author: str | None
    created_at_us: int
    state: ProposalState = ProposalState.OPEN
    approvals: tuple[Approval, ...] = ()
    """At most one of each actor, the newest last."""
    checks: tuple[ProposalCheck, ...] = ()
    """The last result of each check, by name."""
    comments: tuple[Comment, ...] = ()
    merged_commit: CommitId | None = None
    closed_by: str | None = None
    key: str | None = None
    """The idempotency key of the request that opened it."""

    def check_open(self) -> None:
        """Raises ProposalNotOpen."""
        if self.state is not ProposalState.OPEN:
            raise ProposalNotOpen(self.id, state=self.state.value)

    def with_comment(self, comment: Comment) -> "Proposal":
        """A comment with a known key is the same comment.

        Raises KeyReused, UsageError if there are too many.
        """
        if comment.key is not None:
            for each in self.comments:
                if (each.actor, each.key) == (comment.actor, comment.key):
                    if each.text != comment.text:
                        raise KeyReused(comment.key)
                    return self
        if len(self.comments) >= COMMENTS_MAX:
            raise UsageError(f"a proposal has at most {COMMENTS_MAX} comments")
        return replace(self, comments=(*self.comments, comment))

    def with_approval(self, approval: Approval) -> "Proposal":
        """Raises ProposalNotOpen."""
        self.check_open()
        others = [each for each in self.approvals if each.actor != approval.actor]
        return replace(self, approvals=(*others, approval))

    def with_checks(self, results: tuple[ProposalCheck, ...]) -> "Proposal":
        """The results replace the earlier ones of the same checks."""
        known = {each.name: each for each in (*self.checks, *results)}
        return replace(self, checks=tuple(known[name] for name in sorted(known)))

    def closed(self, actor: str | None) -> "Proposal":
        """Raises ProposalNotOpen if it was merged."""
        if self.state is ProposalState.CLOSED:
            return self
        self.check_open()
        return replace(self, state=ProposalState.CLOSED, closed_by=actor)

    def merged(self, commit: CommitId) -> "Proposal":
        return replace(self, state=ProposalState.MERGED, merged_commit=commit, closed_by=None)

    def encode(self) -> bytes:
        document = {
            "format": FORMAT,
            "id": self.id,
            "title": self.title,
            "text": self.text,
            "source": self.source,
            "target": self.target,
            "author": self.author,
            "created_at": self.created_at_us,
            "state": self.state.value,
            "approvals": [_encode_approval(each) for each in self.approvals],
            "checks": [_encode_check(each) for each in self.checks],
            "comments": [_encode_comment(each) for each in self.comments],
            "merged_commit_id": self.merged_commit,
            "closed_by": self.closed_by,
            "key": self.key,
        }
        return json.dumps(document, ensure_ascii=False, indent=1).encode()


def check_title(title: str) -> str:
    """Raises UsageError."""
    title = title.strip()
    if not title or "\n" in title or not is_encodable(title):
        raise UsageError("the title of a proposal is one line of text")
    if len(title) > TITLE_CHARACTERS_MAX:
        raise UsageError(f"the title of a proposal has at most {TITLE_CHARACTERS_MAX} characters")
    return title


def check_text(text: str, bytes_max: int, what: str) -> str:
    """Raises UsageError."""
    if not is_encodable(text):
        raise UsageError(f"{what} holds half a character, which cannot be written")
    if len(text.encode()) > bytes_max:
        raise UsageError(f"{what} has at most {bytes_max} bytes of UTF-8")
    return text


def decode_proposal(data: bytes, key: str) -> Proposal:
    """Raises ObjectCorrupt."""
    try:
        found = read_json(data)
        if found["format"] != FORMAT:
            raise ObjectCorrupt(key, reason=f"its format is {found['format']!r}, not {FORMAT}")
        return _decode(found)
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectCorrupt(key, reason=f"it is not a proposal: {error!r}") from error


def _decode(found: dict[str, Any]) -> Proposal:
    merged = found["merged_commit_id"]
    return Proposal(
        id=found["id"],
        title=found["title"],
        text=found["text"],
        source=BranchName(found["source"]),
        target=BranchName(found["target"]),
        author=found["author"],
        created_at_us=found["created_at"],
        state=ProposalState(found["state"]),
        approvals=tuple(_decode_approval(each) for each in found["approvals"]),
        checks=tuple(_decode_check(each) for each in found["checks"]),
        comments=tuple(_decode_comment(each) for each in found["comments"]),
        merged_commit=None if merged is None else CommitId(merged),
        closed_by=found["closed_by"],
        key=found["key"],
    )


def _encode_approval(approval: Approval) -> dict[str, Any]:
    return {
        "actor": approval.actor,
        "at": approval.at_us,
        "source_commit_id": approval.source_head,
    }


def _decode_approval(found: dict[str, Any]) -> Approval:
    return Approval(found["actor"], found["at"], CommitId(found["source_commit_id"]))


def _encode_check(check: ProposalCheck) -> dict[str, Any]:
    return {
        "name": check.name,
        "row_count": check.row_count,
        "source_commit_id": check.source_head,
        "target_commit_id": check.target_head,
        "at": check.at_us,
        "reason": check.reason,
    }


def _decode_check(found: dict[str, Any]) -> ProposalCheck:
    return ProposalCheck(
        found["name"],
        found["row_count"],
        CommitId(found["source_commit_id"]),
        CommitId(found["target_commit_id"]),
        found["at"],
        found["reason"],
    )


def _encode_comment(comment: Comment) -> dict[str, Any]:
    return {
        "actor": comment.actor,
        "at": comment.at_us,
        "text": comment.text,
        "key": comment.key,
    }


def _decode_comment(found: dict[str, Any]) -> Comment:
    return Comment(found["actor"], found["at"], found["text"], found["key"])
