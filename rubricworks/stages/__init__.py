"""Stages that two or more methods share: one module each, with a typed `Config` and `run(config, job)`."""
