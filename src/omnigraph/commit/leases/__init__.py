"""One writer per table and branch: queues in the process, leases among processes.

A writer first waits in the queue of its process, then acquires the lease (D1). Index, setting and
compaction commits of one table do not conflict in the table format; only the lease excludes them.

1. A lease is changed by compare-and-swap only, and its epoch only rises.
2. Locks are acquired in the order of their lock keys, so writers cannot deadlock.
3. Only recovery takes over the lease of a writer that is gone.
4. Fair queues order waiting processes; no correctness depends on them.

Reading order: `owner` (is a process dead?), `lock_key` (what can be locked), `process_queues`,
`lease` (the object), `fair_queue`, `heartbeat`, `held_leases` (of one operation), `lease_cache`
(kept between operations), `holder` (acquire, release, take over), `fences` (writers that may
resume), `staging` (bulk jobs under way).
"""
