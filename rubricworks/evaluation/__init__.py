"""Evaluation: scorers of captions and answers, audits of judges, and their summaries."""
