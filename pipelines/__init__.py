"""One file per DAG, and what runs one on this machine (`local`) or writes it for a cluster (`compile`)."""
