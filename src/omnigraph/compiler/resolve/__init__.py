"""Name resolution: a query tree and a catalog to `ir`, or every fault.

Reading order: `query` resolves queries and files. For a read, `pattern` resolves clauses to steps
(with `walks` for traversals, `variables` for scopes and `mentions` for the variables of a clause),
then `outputs` and `ordering` follow; `mutation` resolves mutations. They share `expressions`, which
are made of `conditions`, `search`, `operands` and `literals`, and call `typecheck` and
`compiler.functions`. All of them report to the `context`.
"""

from omnigraph.compiler.resolve.query import (
    CheckedQuery as CheckedQuery,
    check_file as check_file,
    check_split as check_split,
    find_mixed as find_mixed,
    resolve_query as resolve_query,
)
