"""Failure-mode audits of a judge: abnormal responses with known credit, and the credit that it gives (RLR³, 5.5)."""
