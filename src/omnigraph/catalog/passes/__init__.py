"""The passes of `catalog.build`: each checks one kind of rule, and reports every breach.

`draft` is the value that they pass on: a schema whose types are resolved, with source places.
"""
