"""Reads of the query language on Spark: one compiled plan, lowered onto DataFrames.

1. There is one compiler. `compiler.compile` makes the plan that the engine runs; `lower` turns the
   same operators into joins, filters and aggregates. Mypy closes the union of operators.
2. A scan names its columns and its filter when it is made, so one use of a table never narrows
   another use (docs/adr/0011). Spark evaluates every condition again.
3. The driver binds the snapshot, the parameters and `now()` once. The DataFrame shows the same rows
   whenever it is used.
4. An index lives where the engine does. The driver ranks the candidates of `nearest`, `bm25` and
   `rrf`, and sends the winners to Spark.

In reading order: `scans` reads tables, `rows` names the columns of variables, `terms` and
`conditions` turn expressions into columns, `walks` follows edges, `joins` puts blocks together,
`ranking` ranks on the driver, `columns` groups and projects, `lower` runs the tree, and `run` is
the door.
"""
