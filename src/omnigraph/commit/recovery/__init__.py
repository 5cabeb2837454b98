"""Recovery: finishing or undoing an operation whose writer is gone.

1. The sidecar of an operation exists before its first table moves, and is removed last.
2. Every table of an operation is rolled forward, or every table is rolled back.
3. An operation has at most one recovery commit, whose id follows from the operation. That commit
   fences the writer of the operation, should its process resume (D2).
4. After a recovery the newest version of every table is the one its branch shows, unless another
   program moved rows; then `repair` decides (D38).
5. Recovery may die at any step, and is then repeated.

Reading order: `sidecar` and `sidecar_store` (what an operation leaves), `classify` (facts in,
class out), `inspect` (the facts), `recovery_commit`, `roll_forward`, `roll_back`, `resolve` (one
sidecar), `heal` (all sidecars), `drift` (tables that moved without a sidecar), `audit`.
"""
