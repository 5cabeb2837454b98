"""Programs that were refused, and the edits that make them valid.

A language model that gets a refusal writes the query again, and often differently wrong. Here the
refusal brings the correction with it. Everything is text and catalog in, values out; nothing runs
unless a program was refused.

Invariants:

1. A repair is checked: its program has no fault that the compiler knows.
2. A repair never drops a condition, a projection or a statement.
3. The work is bounded: `CHECKS_MAX` compilations, texts of `TEXT_MAX` characters, no long words.

Modules, in reading order:

    edits       an edit, a text under several edits, and the repair that results
    program     a refused text as the proposals see it: masked strings, variables and their types
    foreign     a text in another language, cut at its own words
    cypher, sql, graphql, gremlin
                whole programs of these languages, clause by clause
    functions   functions and methods by their names elsewhere
    habits      what other languages write, as patterns near a syntax error
    arrows      the arrow patterns of Cypher, as bindings and traversals
    sections    `where`, `return`, `order by`, missing heads and braces
    statements  mutations in the words of SQL and Cypher
    parameters  declarations, by the use of a parameter
    values      literals and comparisons, in the type that a property asks for
    meaning     names and patterns: proposals by the code of the broken rule
    search      the first sequence of proposals after which nothing is wrong
"""
