"""Running read plans, in this process, a morsel of rows at a time.

A row binds variables to rows of tables by their *ordinals*, which are small integers; values are
looked up when something asks for them. So joins and walks move integers, and text is touched for
what is left at the end.

In reading order: `rows` are the rows of one table that ordinals count, all of them in memory
(`ResidentRows`) or those met so far (`Gathered`). `frame` binds variables to them. `values` and
`conditions` compute with whole columns. `shelf` keeps what is dear to make, by physical table
state. `view` is one snapshot, as tables to read. `scan`, `expand` (with `csr` and `walk`), `join`,
`rank`, `sort`, `project` and `aggregate` are the operators, `run` puts them together, and `result`
is what comes out. `search` (with `texts`, `postings`, `vectors` and `analysis`) answers
text clauses and rankings.
"""
