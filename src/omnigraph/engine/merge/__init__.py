"""Merging one branch into another, as one commit with two parents.

1. A merge reads only the rows that the source changed since the base, and the rows of the target
   with the same ids. Rows that only the target changed stay as they are and are not read.
2. No table moves unless no conflict is left and the merged graph obeys the schema.
3. A plan holds row refs and ids, never rows. Rows are read again, in portions, when written.
4. Every table of the target that the plan read must be at the same version when the commit is
   published. If one moved, the merge is planned again.

Modules in reading order: `bases` (the merge base), `sources` (a branch, or one commit to pick or
revert), `classify` (the rules for one row and one
table), `conflicts` (what blocks a merge, and the file to resolve it in), `rulings` (decisions made
beforehand), `table_plan` (values: what happens to the rows of one table), `resolve` (rows that
both branches changed), `plan_rows` (computes a `TablePlan`), `check` (the merged graph against the
schema), `broken_rules` (resolves broken rules by the side that was chosen), `workers` (bulk work
elsewhere), `plan` (the whole graph), `writes` (a plan as commits of bounded size), `staged_result`
(the merged graph before it is published), `run`.
"""
