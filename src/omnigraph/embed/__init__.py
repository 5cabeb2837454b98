"""Texts to vectors, through one provider.

`settings` says which provider and how patient to be, `providers` how each is spoken to, `line` is
the connection to one, `mock` makes vectors out of nothing, `embedder` asks, waits and asks again.
Keys are sent and never shown: not in an error, not in a log, not in a `repr`.
"""
