"""Studies with people: labels of rubrics and of verdicts, and preferences among images."""
