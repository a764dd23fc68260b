"""Sight from outside: Prometheus counters and OpenTelemetry spans, for who has them; nothing is paid without.

    RUBRICWORKS_METRICS_PORT=9464 rubricworks run my.yaml        # http://localhost:9464/metrics
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 rubricworks run my.yaml

The counters are the clients' own totals, read when they are asked for. Spans follow the conventions for generative AI
(`gen_ai.*`); they hold names and numbers, never a prompt or an answer.
"""

import os
import sys
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rubricworks.errors import UserError
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.usage import Totals, Usage

if TYPE_CHECKING:
    from rubricworks.llm.client import ChatClient

_PORT = "RUBRICWORKS_METRICS_PORT"
_OTLP = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_clients: "weakref.WeakSet[ChatClient]" = weakref.WeakSet()
_ended: dict[tuple[str, str], list[Totals]] = defaultdict(list)
"""Totals of clients that are gone, so that a counter never falls."""
_lock = threading.Lock()


def watch(client: "ChatClient") -> None:
    """Let `ChatCollector` read this client's totals, also after its end."""
    with _lock:
        _clients.add(client)
    key = (client.purpose, client.endpoint.model)
    weakref.finalize(client, _keep, key, client.totals).atexit = False


def _keep(key: tuple[str, str], totals: Totals) -> None:
    with _lock:
        kept = _ended[key]
        if kept:
            kept[0].add(totals)
        else:
            kept.append(totals)


class ChatCollector:
    """Collects every client's totals for Prometheus: `REGISTRY.register(ChatCollector())`."""

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        names = ["purpose", "model"]
        calls = CounterMetricFamily("rubricworks_chat_calls", "Calls, cached ones included", labels=names)
        cached = CounterMetricFamily("rubricworks_chat_cached", "Calls answered from the cache", labels=names)
        errors = CounterMetricFamily("rubricworks_chat_errors", "Calls that failed for good", labels=[*names, "class"])
        tokens = CounterMetricFamily("rubricworks_chat_tokens", "Tokens", labels=[*names, "kind"])
        dollars = CounterMetricFamily("rubricworks_chat_cost_dollars", "Dollars", labels=names)
        throttled = CounterMetricFamily("rubricworks_chat_throttled", "Requests turned away by 429", labels=names)
        in_flight = GaugeMetricFamily("rubricworks_chat_in_flight", "Requests in flight", labels=names)
        limit = GaugeMetricFamily("rubricworks_chat_limit", "Requests that may be in flight", labels=names)
        with _lock:
            clients = list(_clients)
            sums: dict[tuple[str, str], Totals] = defaultdict(Totals)
            for key, kept in _ended.items():
                for totals in kept:
                    sums[key].add(totals)
            for client in clients:
                sums[client.purpose, client.endpoint.model].add(client.totals)
        for key, total in sorted(sums.items(), key=lambda item: item[0]):
            calls.add_metric(key, total.calls)
            cached.add_metric(key, total.cached)
            tokens.add_metric([*key, "prompt"], total.prompt_tokens)
            tokens.add_metric([*key, "completion"], total.completion_tokens)
            dollars.add_metric(key, total.cost)
            for kind, count in total.errors.items():
                errors.add_metric([*key, kind.value], count)
        for key, limiter in {(c.purpose, c.endpoint.model): c.limiter for c in clients}.items():
            throttled.add_metric(key, limiter.throttled)
            in_flight.add_metric(key, limiter.in_flight)
            limit.add_metric(key, int(limiter.limit))
        return (calls, cached, errors, tokens, dollars, throttled, in_flight, limit)


def serve_from_environment() -> None:
    """Start what the environment asks for: the metrics page on RUBRICWORKS_METRICS_PORT, spans to an OTLP endpoint."""
    if port := os.environ.get(_PORT):
        _serve_metrics(port)
    if any(os.environ.get(name) for name in _OTLP):
        _send_spans()


def _serve_metrics(port: str) -> None:
    try:
        from prometheus_client import REGISTRY, start_http_server
    except ImportError:
        raise UserError(f"{_PORT} is set, which needs: pip install 'rubricworks[telemetry]'") from None
    try:
        start_http_server(int(port), addr=os.environ.get("RUBRICWORKS_METRICS_HOST", "127.0.0.1"))
    except (ValueError, OverflowError):
        raise UserError(f"{_PORT} is {port!r}; give a port number, such as 9464") from None
    except OSError as error:
        raise UserError(f"{_PORT}: port {port} cannot be used: {error.strerror}; choose another") from None
    REGISTRY.register(ChatCollector())


def _send_spans() -> None:
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise UserError(f"{_OTLP[0]} is set, which needs: pip install 'rubricworks[telemetry]'") from None
    service = os.environ.get("OTEL_SERVICE_NAME", "rubricworks")
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def span_maker(endpoint: Endpoint, purpose: str) -> Callable[[], Any] | None:
    """Opens the span of one call; None unless this process has set up a tracer provider."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or not hasattr(trace.get_tracer_provider(), "add_span_processor"):
        return None
    tracer = trace.get_tracer("rubricworks.llm")
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": endpoint.model,
        "gen_ai.request.max_tokens": endpoint.max_tokens,
        "rubricworks.purpose": purpose,
    }
    kind = trace.SpanKind.CLIENT
    return lambda: tracer.start_as_current_span(f"chat {endpoint.model}", kind=kind, attributes=attributes)


def tell(span: Any, usage: Usage) -> None:
    span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
    span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)
    span.set_attribute("rubricworks.cost", usage.cost)
