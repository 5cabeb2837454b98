"""A query tree and a catalog in, a plan out; or every reason why not.

Reading order is the order of control flow, which `compile` spells out: `resolve` looks names up
and makes `ir`, asking the rules of `typecheck`; `passes` rewrite it; `lower` turns it into the
operators of `plan`; `explain` prints those, with `phrases`. `scope` and `access` are where passes
and lowering look things up. `parameters` binds the values of one call; `lint` reports on a file.
"""
