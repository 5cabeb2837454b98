"""Carrying out a change: the one way by which anything becomes visible.

1. No table moves, and no fork is made, before the sidecar exists.
2. A publish is the only write that readers see.
3. A writer that fails and holds its leases undoes its work before it reports the failure.
4. A writer that lost its leases changes nothing more, and reports what recovery did.

Reading order: `schema_lock` (a schema change excludes every writer), `locks` (queues and leases of
an operation), `entry` (what a write looks at before), `sidecar_plan` (what an attempt intends),
`phases` (prepare, arm, apply, publish, disarm), `table_commits`, `undo` (when a phase fails).
"""
