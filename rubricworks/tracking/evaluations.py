"""A leaderboard in MLflow: one run per board, of type evaluation, with a metric per model and figure."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rubricworks.tracking.connection import Connection, report_mlflow_errors
from rubricworks.tracking.runlog import metric_name

if TYPE_CHECKING:
    from rubricworks.evaluation.leaderboard import Leaderboard


def log_evaluation(connection: Connection, board: "Leaderboard", title: str, folder: Path | None = None) -> str:
    """Log the board and return the id of its MLflow run.

    Args:
        folder: files of the board, which become the run's artifacts.
    """
    with report_mlflow_errors(connection.uri):
        from mlflow.entities import Metric, RunTag

        client = connection.client
        tags = {"mlflow.runName": title, "mlflow.runType": "evaluation", "against": board.against}
        run = client.create_run(connection.experiment_id, tags=tags)
        now = int(time.time() * 1000)
        metrics = [
            Metric(metric_name(f"{row.label}/{board.columns[at].title}"), cell.mean.value, now, row.step or 0)
            for row in board.rows
            for at, cell in row.cells.items()
        ]
        instruments = [column.model_dump() for column in board.columns]
        client.log_batch(run.info.run_id, metrics=metrics, tags=[RunTag("comparisons", str(board.comparisons))])
        client.log_text(run.info.run_id, json.dumps(instruments, indent=2), "instruments.json")
        client.log_text(run.info.run_id, board.model_dump_json(indent=2), "leaderboard.json")
        if folder:
            for path in sorted(folder.glob("leaderboard.*")):
                if path.suffix != ".json":
                    client.log_artifact(run.info.run_id, str(path))
        client.set_terminated(run.info.run_id)
    return str(run.info.run_id)
