"""A graph behind a server, with the methods of an embedded one.

The client is written once, as coroutines: `async_graph`, `reads`, `review`, `bulk` and `blob` are
the methods; `http` sends requests and repeats those without an answer; `decoding` and `result` turn
answers into the values an embedded graph returns; `sending` opens the files of a load. `transport`
waits in an event loop, or blocks. `graph` is the client for callers that block: each of its methods
runs a method of `async_graph` on the transport that blocks, by `blocking`.
"""
