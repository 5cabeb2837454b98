"""Full text and vectors over one table of a snapshot.

1. An index never changes an answer. A search returns the same rows and scores with an index,
   without one, and with one that covers part of the table.
2. A text score is BM25 over the whole table, whatever rows the query asks for.
3. Distances are computed in double precision from the stored vectors. Ties are ordered by id.

Modules in reading order: `analysis` (text to terms), `postings` (terms to texts, and
the score), `posting_files` (postings that `optimize` kept beside the table), `kept_texts` (a cache
of postings), `texts` (the texts of a column, from files, fragments or an index), `totals` (the text
counts that an index build stores), `vectors` (nearest rows), `ranking` (text clauses and rank
functions), `provider` (what a query is given to search with).
"""
