"""Reading input: JSON lines, CSV, Parquet, Delta and Iceberg, and rows of data frames.

1. Every record belongs to exactly one split, and every split is read by one task.
2. A fault names the file, the line, the property and the reason.
3. Each format has a fast reader, which reads many records at once with Arrow, and a row reader,
   which reads one record and reports its faults. The fast reader raises `RowByRowNeeded` for a
   block that it is not sure about, and then the row reader reads that block. A property test holds
   both readers to the same rows.

In reading order: `splits` cuts files of text; `mappings` says which column of a table supplies
which property. JSON lines: `envelopes` finds the type of each line, `columns` is the fast reader,
`records` the row reader, `parse` chooses. Tables: `delimited` reads CSV, `parquet` row groups,
`texts` the cells of a CSV, `tabular` turns columns into rows of a type. `values` converts and
checks columns, `identities` generates ids. `lake` says what Delta and Iceberg tables have in
common; `delta` and `iceberg` list and read them; `lake_rows` chooses.
"""
