"""Answers: documents, streams, errors, and the OpenAPI document.

answers        JSON documents and streams; a stalled caller ends its stream
error_mapping  every error as a status and a document, in one table
negotiation    the media type that `Accept` prefers
byte_ranges    `Range`, `If-Match` and related headers of a blob
openapi        the error answers that the OpenAPI document lists
"""
