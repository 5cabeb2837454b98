"""Where the two columns meet: what a graph means, and how it is kept.

Reading order: `contract` (the schema a graph is bound to), `graph` (an open graph), `opening` (how
one is made or opened). A write goes through `gate`, `mutate` (the flow), `statements` or `batch`
(what is wanted), `pending` (what is decided), `committed` (what is there), `validate` (whether it
may be); `rows`, `columns` and `filters` carry values in and out, `upkeep` tidies up afterwards.
"""
