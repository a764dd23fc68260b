"""Pipelines on Kubeflow: client, versions, schedules, placement, compilation."""
