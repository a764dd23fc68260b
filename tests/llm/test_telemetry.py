"""Prometheus metrics of a process, scraped over HTTP, and its errors about invalid variables."""

import socket
import subprocess
import sys

import pytest
from watched_program import CALLS, clean, scrape, script


@pytest.mark.slow
def test_the_page_counts_every_call_and_no_counter_falls_when_clients_end(start, serve, port, tmp_path):
    server = serve(script())
    program = start(
        CALLS, server.url, tmp_path / "c", RUBRICWORKS_METRICS_PORT=str(port), SECRET_KEY="sk-is-kept-secret"
    )
    program.reach_next_step()
    first = scrape(port)
    judged = {
        ("calls_total",): 8,
        ("cached_total",): 2,
        ("requests_total",): 2 + 3 + 1 + 1 + 1,
        ("errors_total", "malformed"): 1,
        ("errors_total", "refused"): 1,
        ("errors_total", "transport"): 1,
        ("errors_total", "truncated"): 1,
        ("tokens_total", "prompt"): 2 * 100 + 3 * 50 + 30 + 20,
        ("tokens_total", "completion"): 2 * 10 + 3 * 5 + 3 + 1024,
        ("provider_cached_tokens_total",): 0,
        ("cost_dollars_total",): pytest.approx(400 * 2e-6),
    }
    labelled = {(name, "judge", "m", *rest): value for (name, *rest), value in judged.items()}
    gauges = {("in_flight", "m", server.url): 0, ("limit", "m", server.url): 32}
    assert first == labelled | gauges

    program.go_on()
    program.reach_next_step()
    second = scrape(port)
    assert second["calls_total", "judge", "m"] == 10
    assert second["calls_total", "writer", "m"] == 1
    assert second["cost_dollars_total", "writer", "m"] == pytest.approx(100e-6)
    assert second["throttled_total", "m", server.url] == 2
    assert second["requests_total", "judge", "m"] == 8 + 1 + 3
    assert second["in_flight", "m", server.url] == 0
    assert 1 <= second["limit", "m", server.url] < 32

    program.go_on()
    program.reach_next_step()
    assert scrape(port) == second

    program.go_on()
    program.reach_next_step()
    last = scrape(port)
    assert last["calls_total", "judge", "m"] == 12
    assert last["errors_total", "judge", "m", "transport"] == 2
    assert last["calls_total", "writer", "m"] == 1
    assert {key: last[key] for key in second if key[0].endswith("_total")}.keys() <= last.keys()
    assert all(last[key] >= value for key, value in second.items() if key[0].endswith("_total"))
    assert program.end() == ""


def test_without_the_variables_nothing_is_started_nor_imported(start, serve):
    code = """
async def main():
    async with ChatClient(sys.argv[1], "m") as client:
        await ask(client, "good")
asyncio.run(main())
assert not {"prometheus_client", "opentelemetry"} & sys.modules.keys()
"""
    assert start(code, serve(script()).url).end() == ""


def test_a_taken_port_is_a_warning_in_one_line_and_work_goes_on(start, port):
    with socket.create_server(("127.0.0.1", port)):
        err = start("print('worked')", RUBRICWORKS_METRICS_PORT=str(port)).end()
    assert err == (
        f"no metrics page: port {port} is taken, maybe by another run; choose another RUBRICWORKS_METRICS_PORT\n"
    )


@pytest.mark.slow
def test_the_port_is_free_again_after_a_process_that_was_scraped(start, port):
    for _ in range(2):
        program = start("step()", RUBRICWORKS_METRICS_PORT=str(port))
        program.reach_next_step()
        assert scrape(port) == {}
        assert program.end() == ""


REFUSED = """
import sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))
from rubricworks.errors import UserError
from rubricworks.llm import telemetry
try:
    telemetry.start_from_environment()
except UserError as error:
    print(error)
"""


def refusal(*missing: str, **environment: str) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", REFUSED, *missing]
    return subprocess.run(arguments, capture_output=True, text=True, env=clean() | environment, timeout=600)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RUBRICWORKS_METRICS_PORT": "nine"}, "is 'nine'; give a port number, such as 9464"),
        ({"RUBRICWORKS_METRICS_PORT": "0"}, "is '0'; give a port number"),
        ({"RUBRICWORKS_METRICS_PORT": "65536"}, "is '65536'; give a port number"),
        ({"RUBRICWORKS_METRICS_PORT": "-1"}, "is '-1'; give a port number"),
        (
            {"RUBRICWORKS_METRICS_PORT": "9464", "RUBRICWORKS_METRICS_HOST": "192.0.2.1"},
            "192.0.2.1:9464 cannot be listened on",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
            "a variable of OpenTelemetry (OTEL_…) cannot be used",
        ),
    ],
)
def test_a_variable_that_cannot_be_used_is_said_in_one_line(environment, message):
    done = refusal(**environment)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    assert message in done.stdout


def test_what_is_not_installed_is_named():
    done = refusal("prometheus_client", RUBRICWORKS_METRICS_PORT="9464")
    assert done.stdout == "RUBRICWORKS_METRICS_PORT is set, which needs: pip install 'rubricworks[telemetry]'\n"
    done = refusal("opentelemetry", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "no spans or events are sent" in done.stderr
    assert "pip install 'rubricworks[telemetry]'" in done.stderr
