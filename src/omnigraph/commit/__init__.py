"""The commit protocol: how work becomes visible, or is undone. Knows tables, no schema, no query.

Every writer turns a snapshot and a request into a `Change`. One function, `attempt.phases.run`,
carries a `Change` out: it locks, stages, writes a sidecar, moves the tables, publishes the manifest
and removes the sidecar. If the writer dies, `recovery` rolls its operation forward or back.

1. A graph changes for its readers at one write only: the publish of a manifest.
2. Before the first table moves, a sidecar names every transaction of the operation.
3. One operation at a time writes a table on a branch; a lease says which.
4. Nothing is reported as failed that may still become visible (D4).

Reading order: `leases` (one writer per table and branch), `manifest` (what a branch shows),
`compat` (older formats), `context` (what the writers of a graph share), `recovery`, `attempt`,
`retention` (what cleanup keeps).
"""
