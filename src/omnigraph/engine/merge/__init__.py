"""Merging one branch into another: exact, explained, and carried out like every other write.

In the order of control: `run` finds heads and base and carries the plan out as a `Change`; `plan`
decides table by table, with `classify` for the rules and `rulings` for what people decided;
`check` asks whether the merged graph obeys the schema, `broken` has one side's rows stand where it
does not and a side was chosen; `conflicts` are what they find; `writes` turns a plan into commits
of bounded size. `workers` are asked where there is much to do.

1. Only what the source changed since the base is looked at, and where those rows stand in the
   target. What only the target changed stays as it is without being read.
2. Nothing moves unless there is no conflict left, and the merged graph is valid.
3. A plan holds places and ids, never rows; rows are read again, portion by portion, when written.
4. Whatever was read of the target is expected to be the same when the merge becomes visible; if it
   is not, the merge is planned anew.
"""
