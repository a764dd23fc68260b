"""A grading as a trace of MLflow: JUDGE_URL=… JUDGE_MODEL=… python examples/mlflow_traces.py"""

import asyncio
import os

import mlflow

from rubricworks.adapters.mlflow_traces import TracedGrader
from rubricworks.data import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(criteria=(Criterion(criterion="names the cat", evaluation_rule="Passes if a cat is named.", weight=3),))


async def main() -> None:
    async with ChatClient(os.environ["JUDGE_URL"], os.environ["JUDGE_MODEL"]) as judge:
        await TracedGrader(Grader(judge)).grade(Sample(sample_id="photo-1", prompt="Describe it."), "A cat.", RUBRIC)


if __name__ == "__main__":
    asyncio.run(main())
    mlflow.flush_trace_async_logging()
    print(mlflow.search_traces(return_type="list")[0].info.assessments)
