"""What changed: between two versions of a table, between two snapshots, and commit by commit.

1. A row changed if its content changed. A row that was moved, or written again unchanged, did not.
2. Work follows the size of the change: fragments that both versions share are not read.
3. Changes have one order: tables by key, then rows by id.

Modules in reading order: `row_digest` (the content of a row in 32 bytes), `images` (rows as JSON),
`table_diff` (two versions of a table), `diff` (two snapshots), `feed` (the commits of a branch).
"""
