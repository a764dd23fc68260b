"""One file per DAG."""
