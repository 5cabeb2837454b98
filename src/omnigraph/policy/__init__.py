"""Policies: may this actor do this? Text in, decisions out; nothing here opens a file or a graph.

`actions` names what can be asked for, `bundle` reads a policy, `cedar` compiles one and decides,
`cases` checks a policy against the decisions its author expects.
"""
