"""Jobs: long work that outlives its request. A record beside the graph, `__jobs/{id}.json` (D17).

Invariants:

1. A job waits and runs in the worker that accepted it. That worker renews the record every
   `RENEW_MS`; a record that is not renewed for `SILENT_MS` has lost its worker.
2. Every job has an idempotency key: the caller's, or one made from the job id. If the worker died,
   the next reader of the record looks for a commit with that key. If the commit exists, the job
   succeeded; if not, the job was interrupted and may be sent again with the same key.
3. Cancellation is a request: a marker object beside the record. The job looks for the marker at
   every step, and its renewal thread every `LOOK_MS`, until the tables move. A cancelled job has
   changed nothing. A worker that stops gives its jobs the drain time, and then stops them likewise.
4. Records of ended jobs are removed after `JOBS_KEPT_MS`, and so are idempotency records that led
   to no commit (`engine.write.idempotency`).

Modules, in reading order:

    record  the job, its JSON document, reading and removing records
    run     one job that runs: its state, its renewal, its cancellation
    queue   the jobs of a worker: submit, find, list, cancel, close
"""
