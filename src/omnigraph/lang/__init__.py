"""Text to trees and back, for both languages. Nothing here knows what a program means.

Reading order: `source` (texts, spans, diagnostics), `syntax` (what both parsers do alike: load a
grammar, fail, carry on), then `schema` (.pg) and `query` (.gq), which do not know each other: each
has a `grammar.lark`, an `ast` of frozen values, a `parser`, a `printer`.
"""
