"""An open graph: the language column and the storage column meet here.

Above, `compiler` turns text into plans over a `catalog`. Below, `commit` publishes a `Change` and
reads manifests. The engine turns a request and a snapshot into rows, or into a `Change`.

1. Every write builds one `Change` and gives it to `commit.attempt`. No module here moves a table.
2. Every read runs on one snapshot; writers cannot disturb it.
3. The engine imports no Spark. It defines protocols (`load.bulk`, `merge.workers`,
   `schema.rewriting`), and `pipeline` fulfils them.

Rooms, lowest first; a room imports only rooms below it:

- `settings`, `gate`, `stages`, `cancellation`, `active_schema`: what every room needs;
- `tables`: rows of Lance tables as cells, columns, filters and row refs;
- `search`: full text and vectors over one table;
- `query`: plans run as morsels of row ordinals;
- `write`: mutations and small batches, validated against the committed rows;
- `load`: bulk input and export; `history`: diffs and the change feed;
- `merge`: one branch into another; `schema`: a new schema planned and applied;
- `maintain`: indexes, optimize, cleanup, repair, doctor;
- `graph`: the open graph, the engine's face; `opening`: creates and opens graphs.
"""
