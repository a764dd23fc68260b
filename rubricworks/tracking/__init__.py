"""MLflow runs, the model registry and the gate. MLflow is imported when it is first used."""

from rubricworks.tracking.connection import (
    Connection,
    TrackingConfig,
    check_tracking,
    connect,
    missing_database,
    tracking_uri,
)
from rubricworks.tracking.gate import Gate, GateResult
from rubricworks.tracking.lineage import Lineage, SampleKey, StagedRecipe
from rubricworks.tracking.registry import ModelVersion
from rubricworks.tracking.runlog import RunLog
from rubricworks.tracking.runs import close_pipeline, open_pipeline, pipeline_run, stage_connection, stage_run

__all__ = [
    "Connection",
    "Gate",
    "GateResult",
    "Lineage",
    "ModelVersion",
    "RunLog",
    "SampleKey",
    "StagedRecipe",
    "TrackingConfig",
    "check_tracking",
    "close_pipeline",
    "connect",
    "missing_database",
    "open_pipeline",
    "pipeline_run",
    "stage_connection",
    "stage_run",
    "tracking_uri",
]
