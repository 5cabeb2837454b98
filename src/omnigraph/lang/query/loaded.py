"""The parser of queries. To import this module is to load it: one thread does, and others wait.

A cached function would load it once for each thread that asks before the first one is done, and
they share one interpreter: sixty-four threads would wait for sixty-four parsers.
"""

from typing import Final

from omnigraph.lang.query.parser import GRAMMAR

PARSER: Final = GRAMMAR.load()
