"""Older formats: what is read of them, and how a branch is migrated to the current one.

1. History is never lost. A commit that cannot be read is an error, never an absence.
2. Only a writer migrates. A reader of an older graph changes nothing.
3. Every migration step may be repeated; the stamp is set after the work of the step.

Reading order: `legacy` (commits of graphs older than format 4), `migrate` (the steps),
`old_sidecar` (sidecars of versions 1 and 2).
"""
