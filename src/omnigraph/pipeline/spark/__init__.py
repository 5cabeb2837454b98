"""Spark: the session, the jobs, and what can go wrong with either.

1. Spark is started when the first bulk work of a process needs it, and once. A session that is
   already active is used as it is.
2. Rows do not pass through the JVM, except those of data frames. Tasks return JSON.
3. A Spark that died is noticed and forgotten; the job fails with one line, and the next job starts
   or reaches another Spark.

In reading order: `session` finds or starts a session, `connect` runs a Spark Connect server,
`class_archive` makes Java start faster; `worker_environment` checks what workers have installed;
`jobs` runs tasks, `progress` reports and cancels them; `liveness` notices a dead Spark.
"""
