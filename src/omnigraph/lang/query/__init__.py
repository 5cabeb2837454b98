"""The query language, `.gq`: `parse` a text to a tree, `print_file` a tree to a text."""
