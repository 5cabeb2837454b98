"""The routes: each parses a request, calls the graph, and renders the result.

No route catches an error; `responses.error_mapping` maps errors to answers.

    flat       the server itself: health, metrics, graphs, reload
    reading    snapshots, commits, the schema
    querying   queries and single entities, as JSON, JSON lines or Arrow
    streaming  exports, changes, diffs
    blobs      the bytes of a blob
    writing    mutations, rows of one type
    branches   list, create, merge, delete
    loading    records in JSON, as a stream, as files
    stored     stored queries by name
    upkeep     schema changes, optimize
    agents     the graph as tools for agents: `/mcp`
    ui         the files of the web page, the caller's rights, the types
    jobs       the state of a job, cancellation
"""
