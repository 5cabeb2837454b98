"""The Python interface: `omnigraph.init`, `omnigraph.open`, `omnigraph.connect`.

1. An embedded graph and a graph on a server are both a `GraphClient` and have the same objects.
2. A `Snapshot` is pinned to one commit; a `Branch` reads its head at each call, and writes.
3. A write is a list of steps. A transaction collects its steps and sends them once.
4. A client invents an idempotency key for every write that has none, so a lost answer is asked for
   again and the write still happens once.

Modules in reading order: `client` (what a graph is to a caller), `handles` (branch, snapshot,
transaction), `steps` (writes as steps), `moments` (which state a read names), `documents` and
`reviewing` (the JSON that every surface prints). Rooms: `embedded`, a graph opened in this process,
and `remote`, a graph behind a server.
"""
