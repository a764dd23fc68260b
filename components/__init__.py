"""One folder per component, by phase: a typed signature and one call into a stage.

Everything that passes between components is a string: a URI, or a configuration as JSON (numbers in lists would
come out of Kubeflow Pipelines as floats).
"""
