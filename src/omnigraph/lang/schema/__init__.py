"""The schema language, `.pg`: `parser.parse` makes a tree of a text, `printer.print_schema` a text.

Reading order: `ast`, `grammar.lark`, `parser`, `printer`.
"""
