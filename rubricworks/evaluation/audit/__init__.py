"""Failure-mode audits of a judge: abnormal responses with known deserts, and what it credits them (RLR³, 5.5)."""
