"""An open graph: branches, commits, snapshots and writes of one root.

1. A `Graph` holds no branch: every call names one. It is safe to share among threads.
2. Every read and every write asks the gate before it reads a table. A read is made by the actor
   that `acting_as` binds; a write by the actor of its request. `active_schema` and the stores are
   for the process itself and ask no gate.
3. A branch with a merge rule is changed only by merging a proposal that meets the rule (D39).
   Maintenance and recovery change no row, and are exempt.

Modules in reading order: `state` (stores, schema, gate), `targets` (which snapshot a read uses),
`reads`, `branching`, `writes`, `proposing`, `maintenance`.
"""

from omnigraph.engine.graph.maintenance import GraphMaintenance
from omnigraph.engine.graph.proposing import GraphProposals, ProposalDraft as ProposalDraft
from omnigraph.engine.graph.reads import (
    EVERY_COMMIT as EVERY_COMMIT,
    CommitFilter as CommitFilter,
)
from omnigraph.engine.graph.state import Mode as Mode


class Graph(GraphProposals, GraphMaintenance):
    """Make one with `opening.create` or `opening.open_graph`."""
