"""Mathematical answers, read and compared: the room of `expr_verify`.

An answer passes through the files in this order: `surface` (characters, dollar signs, boxes), `answers` (words,
amounts, collections, equations; by `amounts`, `units` and `formula`), `sameness` (two answers compared, by `exact`
arithmetic or `numeric` values). What these leave goes to SymPy in a process of its own (`worker_pool`, `worker`,
`sympy_answers`). `verify` is the door.
"""
