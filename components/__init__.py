"""Components of Kubeflow, one file per phase: each has a typed signature and makes one call into a stage.

Everything that passes between components is a string: a URI, or a configuration as JSON (numbers in lists would
come out of Kubeflow Pipelines as floats).
"""
