"""Report of a recaptioning run."""
