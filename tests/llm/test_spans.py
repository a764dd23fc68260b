"""The spans that an OpenTelemetry collector receives over HTTP: names and numbers, and no words."""

import subprocess
import sys

import pytest
from otlp_server import attributes_of
from scripted_server import say
from watched_program import CALLS, PROGRAM, clean, scrape, script


@pytest.mark.slow
def test_each_call_is_a_span_with_names_and_numbers_and_no_words(start, serve, collector, tmp_path):
    server = serve(script())
    program = start(
        CALLS, server.url, tmp_path / "c", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, SECRET_KEY="sk-is-kept-secret"
    )
    for _ in range(3):
        program.reach_next_step()
        program.go_on()
    program.reach_next_step()
    assert program.end() == ""

    spans = collector.spans
    assert len(spans) == 11  # the two answers from the cache are no requests
    assert {span.name for span in spans} == {"chat m"}
    assert collector.services == {"rubricworks"}
    good = next(span for span in spans if attributes_of(span)["rubricworks.purpose"] == "judge")
    assert good.end_time_unix_nano > good.start_time_unix_nano
    assert (good.kind, good.status.code) == (3, 0)  # client, unset
    assert attributes_of(good) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.max_tokens": 1024,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "rubricworks.purpose": "judge",
        "rubricworks.cost": pytest.approx(200e-6),
        "server.address": "127.0.0.1",
        "server.port": server.port,
    }
    failed = [span for span in spans if span.status.code == 2]
    classes = sorted(["malformed", "refused", "transport", "truncated", "transport"])
    assert sorted(span.status.message for span in failed) == classes
    assert sorted(attributes_of(span)["error.type"] for span in failed) == classes
    assert not [event for span in spans for event in span.events]
    assert server.chats[0].headers["Authorization"] == "Bearer sk-is-kept-secret"
    for payload in collector.payloads:
        for words in (b"sk-is", b"good", b"asked-this", b"said-", b'{"n"', b"SECRET_KEY"):
            assert words not in payload


@pytest.mark.slow
def test_an_interrupted_call_ends_its_span_with_the_name_of_the_exception(start, serve, collector):
    slow = say("{}")
    slow.delay = 5
    code = """
async def main():
    async with ChatClient(sys.argv[1], "m") as client:
        try:
            await asyncio.wait_for(client.chat([{"role": "user", "content": "asked-this"}]), 0.2)
        except TimeoutError:
            pass
asyncio.run(main())
"""
    environment = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces", "OTEL_SERVICE_NAME": "ours"}
    assert start(code, serve([slow]).url, **environment).end() == ""
    (span,) = collector.spans
    assert (span.status.code, span.status.message) == (2, "CancelledError")
    assert collector.services == {"ours"}


@pytest.mark.slow
def test_a_secret_part_of_the_url_stays_in_the_environment(start, serve, port, collector):
    server = serve(script())
    code = """
async def main():
    async with ChatClient(Endpoint(url="${SECRET_URL}", model="m")) as client:
        await ask(client, "good")
        step()
asyncio.run(main())
"""
    program = start(
        code,
        RUBRICWORKS_METRICS_PORT=str(port),
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        SECRET_URL=f"http://127.0.0.1:{server.port}/tenant-42/v1",
    )
    program.reach_next_step()
    page = scrape(port)
    program.end()
    assert page["limit", "m", "${SECRET_URL}"] == 32
    (span,) = collector.spans
    assert "server.address" not in attributes_of(span)
    assert not [payload for payload in collector.payloads if b"tenant" in payload]


@pytest.mark.slow
def test_a_provider_of_the_application_gets_the_spans_and_keeps_its_place(start, serve, collector):
    code = """
from opentelemetry import trace
async def main():
    async with ChatClient(sys.argv[1], "m") as client:
        await ask(client, "good")
asyncio.run(main())
print(len(exporter.get_finished_spans()), trace.get_tracer_provider() is provider)
"""
    before = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
    arguments = [sys.executable, "-c", before + PROGRAM + code, serve(script()).url]
    environment = clean() | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=600)
    assert (done.stdout, done.stderr, collector.payloads) == ("1 True\n", "", [])
