"""Text to trees and back, for both languages. No module here knows the meaning of a program.

1. Printing a tree and parsing the text gives an equal tree.
2. A parser reports every syntax error of a text, not only the first.
3. The two languages do not import each other.

Reading order: `source` (texts, spans, diagnostics), `grammars` (loads a grammar and its tables),
`syntax` (what both parsers share: tokens, errors, recovery after an error), then the packages
`schema` (`.pg`) and `query` (`.gq`). Each has a `grammar.lark`, an `ast` of frozen values, a
`parser` and a `printer`; `query` also has `mistakes` (hints) and `rules` (codes).
"""
