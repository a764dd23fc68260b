"""Steps that two or more methods share, one module each: a typed `Config` and `run(config, job)`."""
