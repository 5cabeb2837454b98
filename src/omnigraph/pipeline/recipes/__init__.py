"""Recipes: pipeline files that name several inputs of one load.

1. A recipe is read strictly. Every mistake is reported at once, with its line.
2. An input that only names columns is an input like any other, and needs no Spark. An input with a
   filter or an expression becomes a query of Spark SQL, whose rows keep their file and line.

In reading order: `recipe` reads the file; `resolve` finds the inputs and checks them against the
schema; `spark_sql` makes the queries.
"""
