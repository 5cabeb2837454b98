"""The query language, `.gq`: `parser.parse` makes a tree of a text, `printer.print_file` a text.

Reading order: `ast`, `grammar.lark`, `parser`, `rules` (codes of syntax errors), `mistakes` (hints
for common errors), `printer`.
"""
