"""Tables and bytes. This package knows no graph: it moves versions and objects, and is told which.

Reading order: `layout` spells every path; `objects` and `tables` are the two protocols everything
above is written on; `stores` opens both for a root. `objects_local`, `objects_cloud` and
`lance.tables` are their implementations, `durability` decides what is flushed, and `translate` is
where foreign errors become ours. Lance is imported here and nowhere above.
"""

from omnigraph.pandas_guard import hide_pandas

hide_pandas()
