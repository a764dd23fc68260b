"""Measures of responses: benchmarks, judges of pairs, an oracle, answer checks."""
