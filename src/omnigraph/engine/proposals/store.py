"""The files of proposals: read, listed, and replaced by compare-and-swap."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from omnigraph.engine.proposals.proposal import Proposal, decode_proposal
from omnigraph.errors import Contention, ObjectChanged, ObjectNotFound, ProposalNotFound
from omnigraph.storage.layout import PROPOSALS, proposal_key
from omnigraph.storage.objects import Objects

EDITS_MAX: Final = 50
"""How often an edit is made again because another process was first."""

_ID: Final = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def put_proposal(objects: Objects, proposal: Proposal) -> None:
    objects.put_new(proposal_key(proposal.id), proposal.encode())


def read_proposal(objects: Objects, proposal_id: str) -> Proposal:
    """Raises ProposalNotFound, ObjectCorrupt."""
    key = _key(proposal_id)
    try:
        return decode_proposal(objects.read(key).data, key)
    except ObjectNotFound:
        raise ProposalNotFound(proposal_id) from None


def find_proposals(objects: Objects) -> Iterator[Proposal]:
    """All of them, the newest first. Raises ObjectCorrupt."""
    for listed in sorted(objects.list(PROPOSALS), key=lambda each: each.key, reverse=True):
        yield decode_proposal(objects.read(listed.key).data, listed.key)


def edit_proposal(
    objects: Objects, proposal_id: str, edit: Callable[[Proposal], Proposal]
) -> Proposal:
    """Replace a proposal by its edited form; `edit` runs again if another process was first.

    Raises ProposalNotFound, ObjectCorrupt, Contention, and what `edit` raises.
    """
    key = _key(proposal_id)
    for _ in range(EDITS_MAX):
        try:
            found = objects.read(key)
        except ObjectNotFound:
            raise ProposalNotFound(proposal_id) from None
        before = decode_proposal(found.data, key)
        after = edit(before)
        if after == before:
            return before
        try:
            objects.put_if_match(key, after.encode(), tag=found.tag)
        except ObjectChanged:
            continue
        return after
    raise Contention(f"proposal {proposal_id}", attempts=EDITS_MAX)


def _key(proposal_id: str) -> str:
    """Raises ProposalNotFound for a text that is no id."""
    if not _ID.fullmatch(proposal_id):
        raise ProposalNotFound(proposal_id)
    return proposal_key(proposal_id)
