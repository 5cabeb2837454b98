"""From one schema to another: the differences, the steps they need, and the plan of all steps.

`diff` compares two catalogs, `planning` decides what is allowed, `steps` are the values of a plan.
"""
