"""What a schema means: an immutable catalog of types, built from a tree or from its canonical JSON.

Reading order: `types` (value types), `model` (the catalog), `rules` (why a schema is rejected),
`build` (tree → catalog, or every diagnostic; its passes are `declare`, `annotate`, `constrain` and
`defaults`, over a `draft`), `regex` (the patterns of `@check`, with `charset`), `codec` (catalog ⇄
canonical JSON and its hash, in the order `canonical` gives it), `arrow` (catalog → Arrow schemas),
`keys` (the id of a keyed row), `fitting` (values from outside, with `temporal` and `precision`),
`diff` and `migration` (two catalogs → migration steps).
"""
