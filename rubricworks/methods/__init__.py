"""Methods: one folder per paper with its recipe, estimate, stages, report and claims. No method imports another."""
