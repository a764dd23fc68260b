"""Students small enough to train on two CPU cores."""
