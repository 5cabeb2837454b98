"""A graph opened in this process: a directory, or a prefix of a bucket.

`graph` opens and creates it and writes. Its other methods stand in `reads`, `review` (diffs, feeds,
history), `upkeep` (schema, indexes, files, recovery) and `bulk` (loads, exports, data frames).
`merging`, `recipes`, `exporting`, `rejecting` and `rewriting` turn what callers say into requests
of the engine.
"""
