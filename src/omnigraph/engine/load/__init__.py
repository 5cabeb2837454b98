"""Loads and exports, apart from the bulk work.

1. A load commits all of its input as one commit, or nothing.
2. The engine imports no Spark. It describes the bulk work as a `LoadJob`, and the pipeline fulfils
   the protocols of `bulk`.
3. A load holds no lock while it reads. What moved meanwhile is checked again under the locks (D5).

In reading order: `inputs` names what is read; `bulk` is the protocol between a load and the
pipeline; `incoming` evaluates the rules across rows of a small load; `run` is the load from the
request to the commit; `recipe_plan` describes a pipeline file. `export` writes a snapshot to files,
in the order that `sorted_runs` gives or as the Parquet files of `parquet_parts`.
"""
