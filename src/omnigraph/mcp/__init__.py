"""The agent surface: one graph as tools of the Model Context Protocol, on stdin and stdout.

Invariants:

1. Every request line is answered, and no line ends the session (`protocol`).
2. A failure inside a tool is the result of that tool, marked as an error, so that a model can read
   it. Only a malformed message is an error of the protocol.
3. Standard output carries protocol messages and nothing else.

Modules, in reading order:

    tools               a tool: its name, its JSON schema, its check of arguments
    stored_query_tools  one tool for each stored query of a server or a folder
    graph_tools         the tools and resources of a graph
    protocol            JSON-RPC lines in, answers out

`omnigraph.cli.commands.mcp` starts a session. ADR 26 says why the protocol is our own code.
"""
