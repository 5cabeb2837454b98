"""Rows of one Lance table: their cells, their columns, their places, and how they are read.

1. A cell is in the form that its table stores: a Date is days, a DateTime is milliseconds.
2. A filter may let too many rows through, never too few. The caller checks each row again.
3. Rows are read in portions, bounded by a number of rows and by a number of bytes.

Modules in reading order: `cells` (one value, and a row), `columns` (rows ⇄ Arrow columns), `arrays`
(Arrow ⇄ NumPy), `filters` (conditions as SQL), `memory` (the budget of one execution), `metered`
(reads that are counted and charged), `row_refs` (many rows by id and address), `record_format`
(rows as the JSON lines that a load reads).
"""
