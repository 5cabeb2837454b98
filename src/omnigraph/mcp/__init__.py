"""The agent surface: one graph as tools of the Model Context Protocol.

`omnigraph mcp` speaks the protocol on stdin and stdout, with code of our own. A server speaks it at
`/mcp`, through the package `mcp` (`server.routes.agents`). Both offer the same tools.

Invariants:

1. Every request line is answered, and no line ends the session (`protocol`).
2. A failure inside a tool is the result of that tool, marked as an error, so that a model can read
   it. Only a malformed message is an error of the protocol.
3. Standard output carries protocol messages and nothing else.

Modules, in reading order:

    tools               a tool: its name, its JSON schema, its check of arguments
    paging              answers within a budget, and the cursor to go on
    search_tool         nodes by words
    review_tools        changes, differences, a branch for a task, proposals
    stored_query_tools  one tool for each stored query of a server or a folder
    graph_tools         the tools and resources of a graph
    protocol            JSON-RPC lines in, answers out

`omnigraph.cli.commands.mcp` starts a session. ADR 26 says why its protocol is our own
code, ADR 46 why that of a server is not. `language.md` teaches the query language to a model.
"""
