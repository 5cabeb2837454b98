"""Changing the schema of a graph.

1. A schema changes on main while main is the only branch, under the locks of all tables.
2. A schema change is one commit. The schema files follow the commit; until they are complete, the
   sidecar holds the same texts.
3. Adding a property writes no row, unless the property is filled.

Modules in reading order: `backfill` (values for a new property), `plan` (what a new schema would
do), `rewriting` (tables written again, here or by workers), `apply` (the commit),
`staged_leftovers` (a schema change that the reference implementation left unfinished).
"""
