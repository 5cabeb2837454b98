"""How work becomes visible, or is undone. Knows tables and bytes; knows no schema and no query.

Reading order: `records` and `manifest` (what a branch shows), `updates` (its successors), `lineage`
(how commits descend), `base` (reading a branch), `snapshot` (what a reader holds), `publish` (the
one write that makes work visible), `refs` (branches), `stamp` (the version of the format),
`schema_files` (the contract).
"""
