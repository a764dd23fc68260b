"""Work on several pods: TrainJobs and Indexed Jobs are created, followed, resumed and deleted.

These environment variables tell a stage to work on several pods (`config`), or where the models that it calls run. Few
stages do, so this module imports nothing.
"""

TRAIN_JOB = "RUBRICWORKS_TRAIN_JOB"
FAN_OUT = "RUBRICWORKS_FAN_OUT"
SERVE = "RUBRICWORKS_SERVE"
