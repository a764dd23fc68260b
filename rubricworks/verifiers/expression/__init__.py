"""Mathematical answers, read into typed values and compared: the room of `expr_verify`.

A text passes through the files in this order: `surface` (characters, dollar signs, boxes) and `statement` (the value
that a sentence states), `reading` (lists, sets, relations; by `amounts`, `units`, `matrices`, `relations` and
`formula`), `equality` (two `values` compared, by `numeric` and `relations`). Integrals, sums, limits and derivatives go
to SymPy in a process of its own (`worker_pool`, `worker`, `calculus`). `verify` is the door.
"""
