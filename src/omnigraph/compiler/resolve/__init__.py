"""From names to meanings: a query tree and a catalog in, `ir` out, or everything that is wrong.

In reading order: `query` resolves queries and files. A read goes through `pattern` (clauses to
steps, with `walks` for traversals and `variables` for scopes), then `outputs` and `ordering`; a
mutation goes through `mutation`. They share `conditions`, `search`, `operands` and `literals`,
which ask `typecheck` what goes together, and they leave every fault in the `context`.
"""

from omnigraph.compiler.resolve.query import (
    CheckedQuery as CheckedQuery,
    check_file as check_file,
    check_split as check_split,
    find_mixed as find_mixed,
    resolve_query as resolve_query,
)
