"""The runtime of a stage: launch, job, config, calls, tables, reuse, and the stage table."""
