"""What a schema means: an immutable catalog of types, built from a tree or from its canonical JSON.

Reading order: `types` (value types), `model` (the catalog), `build` (tree → catalog, or every
diagnostic), `codec` (catalog ⇄ canonical JSON and its hash), `arrow` (catalog → Arrow schemas),
`keys` (the id of a keyed row), `diff` (two catalogs → migration steps).
"""
