"""The meaning of a schema: an immutable catalog of types, from a tree or from its canonical JSON.

1. Equal schemas give equal catalogs, equal canonical bytes and equal hashes, here and in the
   reference.
2. A schema is rejected with every diagnostic at once.
3. A pattern of `@check` runs in linear time (ADR 22).

Reading order: `types` (value types), `model` (the catalog), `rules` (the codes of rejections),
`build` (tree to catalog; its `passes` work on a draft), `regex` and `charset` (patterns),
`canonical` and `codec` (canonical JSON and its hash), `document` (decoding stored JSON), `arrow`
(Arrow schemas), `keys` (ids of keyed rows), `fitting`, `temporal` and `precision` (values from
outside), `migration` (two catalogs to migration steps).
"""
