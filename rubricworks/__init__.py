"""Rubricworks trains vision-language models with rubric rewards, as versioned pipelines.

The package itself imports nothing heavy: take what you need from `rubricworks.grading`, `rubricworks.rewards`,
`rubricworks.adapters.trl` and their neighbours.
"""

__version__ = "0.2.0"
