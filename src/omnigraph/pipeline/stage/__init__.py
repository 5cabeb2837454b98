"""Staging: what tasks do with the input, and what the driver knows afterwards.

1. Rows become fragments of their table at once if nothing is left to decide about them. Otherwise
   they become pending files: a merge has yet to find the rows that they replace, or the branch has
   no fork of the table yet.
2. Beside the rows, a task writes their keys: id, ends, and one text for each unique constraint. The
   checks read keys and never rows.
3. Every file has a name of its own. Only files that the answer of a task names are ever read.

In reading order: `scratch` is the folder of one load, `worker_scratch` makes sure that workers see
it; `input_plan` surveys the input and cuts it into splits; `ingest` is the task for one split;
`fragments` are its files of rows, `keys` and `buckets` its files of keys; `read_input` runs the
tasks on Spark, `frames` those of data frames; `task_results` puts their answers together;
`write_pending` has workers turn pending files into fragments.
"""
