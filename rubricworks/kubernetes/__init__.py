"""Work on several pods: TrainJobs and Indexed Jobs, made, followed, taken up again and cleaned up.

A stage finds out by these two variables of its environment (`config`) whether it works on several pods. Nearly none
does, so nothing else is loaded to ask.
"""

TRAIN_JOB = "RUBRICWORKS_TRAIN_JOB"
FAN_OUT = "RUBRICWORKS_FAN_OUT"
