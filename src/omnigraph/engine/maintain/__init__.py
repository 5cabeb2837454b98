"""Work on a graph that changes no row: indexes, compaction, cleanup, repair, diagnosis.

1. Every commit keeps showing the same rows before and after maintenance.
2. Maintenance that cannot be done yet is reported and is not an error.
3. `cleanup` deletes only what no branch, commit or unfinished operation can still need.

Modules in reading order: `wanted_indexes` (which indexes a table should have), `indexes` (building
them), `optimize` (compaction and indexes of a branch), `cleanup` (old versions and debris),
`inspection` (unfinished and recovered writes), `repair` (drift that no sidecar explains),
`blob_check` and `doctor` (what must be true of a graph).
"""
