"""Versioned tables and small objects, on a local disk or in a bucket. This package knows no graph.

1. The layers above use two protocols, `Objects` and `Tables`. Only this package imports Lance.
2. Only the methods below «moving HEAD» in `tables.protocol`, and `tables.single_step`, publish.
3. Errors of Lance, Arrow and obstore leave this package as `StorageFailure` and its subclasses.

Reading order: `layout` (every path), `objects` and `tables` (the protocols), `stores` (opens both
for a root). Then the implementations: `objects_local`, `objects_cloud`, and `lance` for tables.
`bucket_options` says how a bucket is reached, `bucket_errors` why it is not. `durability` flushes
files, `translate` translates errors, `inputs` reads the files that a load names, `outputs` writes
the objects of an export, `allocator` returns freed memory to the system.
"""

from omnigraph.pandas_guard import hide_pandas

hide_pandas()
