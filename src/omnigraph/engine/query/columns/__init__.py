"""What operators work on: the tables of a snapshot as columns and adjacencies.

`view` opens a snapshot; `rows` is one table by ordinal, `csr` one edge table as an adjacency. A
`frame` holds the ordinals that variables are bound to. Nothing here knows a plan.
"""
