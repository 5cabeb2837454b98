"""Tools to test a program on OmniGraph when stores fail, processes die, or writers race.

Only tests and benchmarks import this package; the product has no hooks for it. A test wraps the
stores of a graph, so the product cannot tell a fault of the test from a fault of a disk.

Modules, in reading order: `faults` (count, record and break the calls to a store), `failpoints`
(positions in these calls, and what happens there), `invariants` (what must hold of a graph).
"""
