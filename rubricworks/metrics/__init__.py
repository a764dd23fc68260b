"""Numbers about captions and runs, and how sure they are. Pure functions of arrays."""

from rubricworks.metrics.intervals import Interval, bootstrap_interval

__all__ = ["Interval", "bootstrap_interval"]
