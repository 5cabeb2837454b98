"""The bodies that travel over HTTP, as pydantic models, and the words that both sides share.

Requests are read under the field names of both generations; answers carry both. The models only
describe the bodies: `sdk.documents` makes them, for every surface.

Modules, in reading order: `requests`, `replies`, `problems` (the body of an error), `causes` (an
error as a document, and back), `details` (objects beside an error), `formats` (patterns of texts in
requests), `media` (media types and headers).
"""
