"""The Python interface: `omnigraph.init`, `omnigraph.open`, and the graph they give.

`local` is an embedded graph; `documents` are the JSON forms that every surface prints.
"""
