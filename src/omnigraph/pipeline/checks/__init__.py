"""Checking the rules across rows of a load that is too large for the in-process evaluator.

1. The rules are data (`engine.write.row_rules`). This room evaluates them in two ways: as
   conditions that Arrow proves, and as joins of Spark.
2. A rule that the prefilter proves holds. A rule that it does not prove may hold; then joins, or
   the in-process evaluator of the local engine, decide.
3. Joins report the same faults as the in-process evaluator, in the same order.

In reading order: `committed_keys` reads the keys of committed tables; `key_texts` shows the keys of
a load as texts in buckets, `key_frames` as data frames; `prefilter` proves conditions on texts;
`conditions` states rules as conditions; `joins` states them as joins; `run` does one, then the
other.
"""
