"""Charts and figures of pages, drawn from what the other services find."""
