"""The pipeline's steps, one module each: a typed `Config` and `run(config, job)`. The only modules that do I/O.

`launch` is the one door: components, the command line and tests start a stage through it.
"""
