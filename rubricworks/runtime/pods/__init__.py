"""A stage on several pods: a TrainJob, the parts of an Indexed Job, a rollout server."""
