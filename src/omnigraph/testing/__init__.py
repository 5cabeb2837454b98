"""Tools for proving the rest: golden files, random programs and graphs, a slow interpreter, faults.

Nothing outside the tests and benchmarks imports this package.
"""
