"""Grade an answer inside the span of its generation: its verdicts are events of that span, at any collector of OTLP.

pip install 'rubricworks[telemetry]'
OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 python examples/graded_trace.py Qwen2.5-7B-Instruct http://localhost:8000/v1
"""

import asyncio
import sys

from opentelemetry import trace

from rubricworks.data import Sample
from rubricworks.grading import Grader
from rubricworks.llm import ChatClient, telemetry
from rubricworks.rubrics import Criterion, Rubric

RUBRIC = Rubric(criteria=(Criterion(criterion="Names the cat", evaluation_rule="Passes if a cat is named.", weight=3),))


async def main(model: str, url: str) -> None:
    async with ChatClient(url, model) as client:
        with trace.get_tracer("captions").start_as_current_span("caption a photograph"):
            caption = "A black cat sleeps on a red sofa."
            print(await Grader(client).grade(Sample(sample_id="photo-1"), caption, RUBRIC))


telemetry.start_from_environment()
asyncio.run(main(*sys.argv[1:]))
