"""Proposals: one branch is to be merged into another, once people and checks agree (D39).

1. A proposal is one object, `__proposals/{id}.json`, which is replaced by compare-and-swap. An edit
   that another process overtook is made again on what that process wrote.
2. An approval holds for one head of the source. A check result holds for one head of the source and
   one of the target. Commits of upkeep and recovery change no row, so they move no head here.
3. A proposal is merged exactly if a commit of the target carries its id. A reader corrects a file
   that says otherwise: its writer died between the commit and the file.

Modules in reading order: `proposal` (the values and their JSON), `store` (reading and replacing the
file), `heads` (the heads that count, and the commit that merged a proposal), `standing` (what a
proposal still lacks), `checks` (running the queries of a rule on the merged graph), `vetting` (may
this merge be published?).
"""
