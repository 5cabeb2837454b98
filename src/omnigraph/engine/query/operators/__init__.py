"""The operators of a plan, each a generator from frames to frames.

`run` maps each node of a plan to its operator; `execution` holds what the operators of one run
share. `conditions` evaluates expressions, `pushdown` spells them for a scan.
"""
