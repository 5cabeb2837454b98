"""The schema language, `.pg`: `parse` a text to a tree, `print_schema` a tree to a text."""
