"""How any stage runs: launch, job, config, calls, tables, reuse, and the stage table."""
