"""A graph behind a server, with the methods of an embedded one.

`http` sends requests and repeats those without an answer; `graph`, `reads`, `review`, `bulk` and
`blob` are the methods; `decoding` and `result` turn answers into the values an embedded graph
returns; `sending` opens the files of a load.
"""
