"""One folder per paper: its recipe, estimate, stages, report and claims. No method imports another."""
