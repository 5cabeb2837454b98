"""`df.write` and `df.writeStream`: data frames become commits by the machinery of a load (D41).

    plan and check the columns → tasks stage files → receipts → commit, as a load commits

1. Spark runs the three steps in three processes, and none of them is the caller's. The writer is
   pickled from one to the next. The process that runs Spark's `commit` counts as the driver.
2. `write_options` reads the options. `begun_write` is a write whose tasks may run: its staging
   record and its scratch folder. `staged_load` gives the answers of the tasks to `engine.load`, as
   the bulk loader of a load whose input was read already. `writers` are the classes Spark calls.
3. A commit takes the files over when the load has its own staging record. From then on the load
   deletes what no commit names; before, `abort` does.
"""
