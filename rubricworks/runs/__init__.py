"""Runs of a pipeline on this machine: stages as processes, folders, records, resuming, pruning."""
