"""A query text and a catalog to a plan, or every reason for a rejection.

1. A query is rejected with every diagnostic at once.
2. A pass keeps the bag of rows and the order of ordered rows.
3. No module here reads data: a plan depends on the query and the catalog alone.

Reading order is the order of control flow, which `compile` shows: `resolve` resolves names and
makes `ir`, by the rules of `typecheck`; `passes` rewrite the `ir`; `lower` turns it into the
operators of `plan`; `explain` prints a plan, with `phrases`. Passes and lowering use `scope` and
`access`. `parameters` binds the values of one call, `lint` reports on a file, `operation` describes
a query for generated clients, `rules` lists the codes, `spelling` suggests names.
"""
