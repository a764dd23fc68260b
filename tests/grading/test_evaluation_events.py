"""Events of verdicts that an OpenTelemetry collector receives over HTTP, by a process that grades."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from otlp_server import OtlpServer, attributes_of
from scripted_server import fail, say

EXAMPLE = Path(__file__).parents[2] / "examples" / "graded_trace.py"
GRADING = """
import asyncio, sys
from rubricworks.data.tables import Sample
from rubricworks.grading import Cascade, Grader
from rubricworks.llm import ChatClient, telemetry
from rubricworks.rubrics import Criterion, Rubric

telemetry.start_from_environment()
RUBRIC = Rubric(criteria=tuple(
    Criterion(criterion=name, evaluation_rule="r", weight=weight)
    for name, weight in (("Names the cat", 2), ("Says black", 1), ("Invents a dog", -1))
))

def client(model):
    return ChatClient(sys.argv[1], model, attempts=1)

async def grade(grader, *texts):
    return [await grader.grade(Sample(sample_id=f"s{at}"), text, RUBRIC) for at, text in enumerate(texts)]
"""
ONE_JUDGE = "asyncio.run(grade(Grader(client('judge')), 'a black cat', 'outage'))"
CASCADE = """
cheap = Grader(client("cheap"), confidence="repeats", repeats=3)
asyncio.run(grade(Cascade(cheap, Grader(client("strong")), below=0.9), "a black cat"))
"""


def judged(*scores: float) -> str:
    rows = [
        f'{{"id": {at}, "reasoning": "said-of-{at}", "score": {score}}}' for at, score in enumerate(scores, start=1)
    ]
    return f'{{"verdicts": [{", ".join(rows)}]}}'


def answer(_, body):
    if "outage" in str(body["messages"]):
        return fail(400, "said-by-the-server")
    if body["model"] == "cheap":
        return say(judged(1, body["seed"] % 2, 0))
    return say(judged(1) if body["model"] == "strong" else judged(1, 0, 0))


@pytest.fixture
def collector():
    server = OtlpServer()
    yield server
    server.close()


def run(code: str, url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_program([GRADING + code, url], **environment)


def run_program(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "RUBRICWORKS_"))}
    command = [sys.executable, "-c", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=clean | environment, timeout=600)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done


@pytest.mark.slow
def test_each_verdict_is_an_event_and_a_failed_judge_one_with_an_error_and_no_score(serve, collector):
    run(ONE_JUDGE, serve(answer).url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    events = collector.events
    assert {event.event_name for event in events} == {"gen_ai.evaluation.result"}
    common = {"rubricworks.judge": "judge"}
    names = ("Names the cat", "Says black", "Invents a dog")
    scores = ((1.0, "met"), (0.0, "not_met"), (0.0, "not_met"))
    assert [attributes_of(event) for event in events[:3]] == [
        {
            **common,
            "rubricworks.sample_id": "s0",
            "gen_ai.evaluation.name": name,
            "gen_ai.evaluation.score.value": value,
            "gen_ai.evaluation.score.label": label,
        }
        for name, (value, label) in zip(names, scores, strict=True)
    ]
    assert [attributes_of(event) for event in events[3:]] == [
        {**common, "rubricworks.sample_id": "s1", "gen_ai.evaluation.name": name, "error.type": "transport"}
        for name in names
    ]
    assert not [
        words
        for words in (b"said-of", b"said-by", b"a black cat")
        for payload in collector.log_payloads
        if words in payload
    ]


@pytest.mark.slow
def test_reasoning_is_kept_with_contents_and_an_errors_text_never(serve, collector):
    variables = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "EVENT_ONLY"}
    run(ONE_JUDGE, serve(answer).url, OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=f"{collector.url}/v1/logs", **variables)
    explanations = [attributes_of(event).get("gen_ai.evaluation.explanation") for event in collector.events]
    assert explanations == ["said-of-1", "said-of-2", "said-of-3", None, None, None]
    assert not collector.payloads  # spans have another endpoint


@pytest.mark.slow
def test_an_event_belongs_to_the_span_in_which_the_response_was_graded(serve, collector):
    """The example's."""
    code = EXAMPLE.read_text(encoding="utf-8")
    run_program([code, "strong", serve(answer).url], OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    (span,) = [span for span in collector.spans if span.name == "caption a photograph"]
    (event,) = collector.events
    assert (event.trace_id, event.span_id) == (span.trace_id, span.span_id)
    assert attributes_of(event)["gen_ai.evaluation.name"] == "Names the cat"


@pytest.mark.slow
def test_a_cascade_tells_the_verdict_that_stands(serve, collector):
    run(CASCADE, serve(answer).url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    told = [attributes_of(event) for event in collector.events]
    assert [row["gen_ai.evaluation.name"] for row in told] == ["Names the cat", "Says black", "Invents a dog"]
    assert {row["rubricworks.judge"] for row in told} == {"cheap > strong"}


@pytest.mark.slow
@pytest.mark.parametrize("variables", [{}, {"OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}])
def test_no_event_is_sent_that_nobody_asked_for(serve, collector, variables):
    run(
        ONE_JUDGE, serve(answer).url, **{name: value.replace("URL", collector.url) for name, value in variables.items()}
    )
    assert not collector.log_payloads
    assert bool(collector.payloads) == bool(variables)


def test_grading_imports_nothing_of_opentelemetry(serve):
    code = "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    assert run(f"{ONE_JUDGE}\n{code}", serve(answer).url).stdout == "[]\n"


def test_a_grader_can_still_be_pickled(serve):
    from rubricworks.grading import Grader
    from rubricworks.llm import ChatClient

    assert pickle.loads(pickle.dumps(Grader(ChatClient(serve(answer).url, "judge")))).judges
