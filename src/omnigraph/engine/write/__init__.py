"""Small writes of rows: mutations, and batches of one type.

1. A write decides everything before it stages anything: an invalid write leaves no trace.
2. What a write read to decide is part of its `Change`; if it moved, the write is checked again.
3. A write changes each table in one commit, under the write locks of its tables.

Modules in reading order: `coercion` (values as cells), `row_rules` (the rules of the schema as
data), `violations` and `validate` (their evaluation in memory), `base_rows` (what the branch
shows), `pending` (what the write decided), `statements` and `batch` (what the caller wants),
`mutate` (from request to commit), `idempotency` (a repeated request), `upkeep` (compaction and
indexes after many writes).
"""
