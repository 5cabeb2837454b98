"""The manifest of a branch: what it shows, how it changes, and how it is published.

1. A `Manifest` is immutable. `updates` makes its successor from values.
2. `publish` is the only write that makes work visible. Only `attempt` and `recovery` may import it.
3. Every version of a manifest that a publish makes adds at least one commit.
4. Rows are added or replaced by key; no row is ever removed.

Reading order: `records` (commits and their JSON), `commit_log`, `model` (the manifest), `updates`
(its successor), `lineage` (ancestry), `base` (reading a branch), `snapshot` (what a reader holds),
`change` (what a writer wants), `publish`, `branches`, `create` (a new graph), `schema_files`,
`stamp` (the version of the format), `document` (checked JSON of sidecars).
"""
