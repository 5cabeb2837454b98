"""Policies: may this actor perform this action? No module here opens a file or a graph.

1. A rule allows. No rule denies; an action that no rule allows is refused.
2. An actor that is in no group is refused before Cedar is called.

Reading order: `actions` (what can be allowed), `bundle` (YAML to checked rules), `cedar` (compiles
a bundle and decides), `cases` (tests a policy against the decisions that its author expects).
"""
