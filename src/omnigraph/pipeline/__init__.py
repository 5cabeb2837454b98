"""The data pipeline: bulk work on Spark, handed back as receipts.

The driver never holds rows and the workers never commit. A worker reads a piece of the input,
checks it, writes files that nothing refers to yet, and returns what is left to say about them. Two
things therefore cannot happen: a task that is retried cannot leave anything but files nobody reads,
and the memory of the driver does not grow with the input.

In reading order: `session` starts Spark, late and once; `sources` cuts input into splits; `records`
reads lines and says exactly what is wrong with them; `columns` reads many lines at once, and only
those that are beyond doubt; `ingest` is what a worker does with a split; `checks` are the questions
that span rows, asked as joins; `load` puts them together and fulfils `engine.bulk`.
"""
