"""Running read plans in this process, one morsel of rows at a time.

1. A row of a result binds variables to table rows by *ordinal*, a small integer. Joins and walks
   move integers; values are read when an operator needs them.
2. All tables are read at the versions of one snapshot.
3. An execution holds at most `query_memory_bytes_max`; an operator charges what it keeps.
4. A read checks between steps whether it was cancelled.

Rooms, lowest first: `columns` (what is read), `operators` (what is done with it, and `run`, which
connects them). `estimate` expects rows, `profile` measures them; `target`, `reading` and `result`
are the interface, `blob` reads one blob.
"""
