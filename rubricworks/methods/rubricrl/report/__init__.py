"""Report of a RubricRL run."""
