"""What travels over HTTP, as models: requests, replies, problems.

Both generations of field names are accepted and sent. Models describe; the documents themselves are
made where every surface gets them, in `sdk.documents`.
"""
