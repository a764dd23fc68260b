"""Scripted models with stated faults, deterministic by seed."""
