"""Texts to vectors, through one provider.

1. A key is sent to its provider and shown nowhere: not in an error, a log or a `repr`.
2. One deadline covers all attempts of a call.

Reading order: `settings` (provider, model, limits, from the environment), `providers` (request and
answer of each provider, and the mock), `provider_client` (the HTTP connection), `embedder`
(attempts and cache), `record_file` (vectors for the records of a file, for `omnigraph embed`).
"""
