"""Where the two columns meet: what a graph means, and how it is kept.

Reading order: `contract` (the schema a graph is bound to), `graph` (an open graph), `opening` (how
one is made or opened).
"""
