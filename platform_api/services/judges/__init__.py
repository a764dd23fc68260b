"""Judges: what each one said of a response, and whom people agree with."""
