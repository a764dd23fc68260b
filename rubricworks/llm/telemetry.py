"""Telemetry of a process: Prometheus counters, OpenTelemetry spans and events, at no cost unless enabled.

    RUBRICWORKS_METRICS_PORT=9464 rubricworks run my.yaml        # http://localhost:9464/metrics
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 rubricworks run my.yaml

The counters are the clients' own totals, read on each scrape. Spans follow the conventions for generative AI
(`gen_ai.*`); they hold names and numbers, never a prompt, an answer or a server's error text. Events are those of
`grading.evaluation_events`.
"""

import errno
import logging
import os
import sys
import threading
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from rubricworks.errors import UserError
from rubricworks.llm.endpoint import Endpoint
from rubricworks.llm.limiter import Limiter
from rubricworks.llm.question import ChatError
from rubricworks.llm.usage import Totals, Usage

_PORT_VARIABLE, _HOST_VARIABLE = "RUBRICWORKS_METRICS_PORT", "RUBRICWORKS_METRICS_HOST"
_OTLP_VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
_INSTALL_COMMAND = "pip install 'rubricworks[telemetry]'"

_log = logging.getLogger(__name__)


class _ClientRecord(NamedTuple):
    """Data that outlives a client."""

    purpose: str
    endpoint: Endpoint
    totals: Totals
    limiter: weakref.ref[Limiter]


_clients: dict[int, _ClientRecord] = {}
_finalized: "deque[int]" = deque()
"""Ids of finalized clients. Finalizers may run while the lock is held, so they append here and take no lock."""
_closed_totals: dict[tuple[str, str], Totals] = defaultdict(Totals)
"""Totals of finalized clients by purpose and model, so that a counter never decreases."""
_throttled: Counter[tuple[str, str]] = Counter()
_lock = threading.Lock()
_started = False


class MonitoredClient(Protocol):
    """Attributes of a chat client that telemetry reads."""

    purpose: str
    endpoint: Endpoint
    totals: Totals

    @property
    def limiter(self) -> Limiter: ...


def register_client(client: MonitoredClient) -> None:
    """Let `ChatCollector` read this client's totals, even after the client is gone."""
    record = _ClientRecord(client.purpose, client.endpoint, client.totals, weakref.ref(client.limiter))
    with _lock:
        _fold_finalized()
        _clients[id(record)] = record
    weakref.finalize(client, _finalized.append, id(record)).atexit = False


def count_throttled(endpoint: Endpoint) -> None:
    """Count a throttled request."""
    with _lock:
        _throttled[endpoint.model, endpoint.urls[0]] += 1


def _fold_finalized() -> None:
    while _finalized:
        record = _clients.pop(_finalized.popleft())
        _closed_totals[record.purpose, record.endpoint.model].add(record.totals)


class ChatCollector:
    """Prometheus collector of every client's totals: `REGISTRY.register(ChatCollector())`."""

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        by_client, by_server = ["purpose", "model"], ["model", "endpoint"]
        calls = CounterMetricFamily("rubricworks_chat_calls", "Calls, cached ones included", labels=by_client)
        cached = CounterMetricFamily("rubricworks_chat_cached", "Calls answered from the cache", labels=by_client)
        requests = CounterMetricFamily("rubricworks_chat_requests", "HTTP requests, retries included", labels=by_client)
        errors = CounterMetricFamily(
            "rubricworks_chat_errors", "Calls that failed for good", labels=[*by_client, "class"]
        )
        tokens = CounterMetricFamily("rubricworks_chat_tokens", "Tokens", labels=[*by_client, "kind"])
        cached_tokens = CounterMetricFamily(
            "rubricworks_chat_provider_cached_tokens", "Prompt tokens that the provider had cached", labels=by_client
        )
        dollars = CounterMetricFamily("rubricworks_chat_cost_dollars", "Dollars", labels=by_client)
        throttled = CounterMetricFamily("rubricworks_chat_throttled", "Requests turned away by 429", labels=by_server)
        in_flight = GaugeMetricFamily("rubricworks_chat_in_flight", "Requests in flight", labels=by_server)
        limit = GaugeMetricFamily("rubricworks_chat_limit", "Requests that may be in flight", labels=by_server)
        totals, limiters, throttled_counts = _snapshot()
        for key, total in sorted(totals.items()):
            calls.add_metric(key, total.calls)
            cached.add_metric(key, total.cached)
            requests.add_metric(key, total.requests)
            tokens.add_metric([*key, "prompt"], total.prompt_tokens)
            tokens.add_metric([*key, "completion"], total.completion_tokens)
            cached_tokens.add_metric(key, total.cached_tokens)
            dollars.add_metric(key, total.cost)
            for kind, count in total.errors.items():
                errors.add_metric([*key, kind.value], count)
        for server, count in throttled_counts.items():
            throttled.add_metric(server, count)
        for server, group in limiters.items():
            in_flight.add_metric(server, sum(limiter.in_flight for limiter in group))
            limit.add_metric(server, sum(int(limiter.limit) for limiter in group))
        return (calls, cached, requests, errors, tokens, cached_tokens, dollars, throttled, in_flight, limit)


def _snapshot() -> tuple[dict[tuple[str, str], Totals], dict[tuple[str, str], set[Limiter]], Counter[tuple[str, str]]]:
    """Totals by purpose and model; limiters, and counts of throttled requests, by model and endpoint."""
    totals: dict[tuple[str, str], Totals] = defaultdict(Totals)
    limiters: dict[tuple[str, str], set[Limiter]] = defaultdict(set)
    with _lock:
        _fold_finalized()
        for key, closed in _closed_totals.items():
            totals[key].add(closed)
        for record in _clients.values():
            endpoint = record.endpoint
            totals[record.purpose, endpoint.model].add(record.totals)
            if (limiter := record.limiter()) is not None:
                limiters[endpoint.model, endpoint.urls[0]].add(limiter)
        return totals, limiters, _throttled.copy()


def start_from_environment() -> None:
    """Start the telemetry that the environment enables: metrics on RUBRICWORKS_METRICS_PORT, spans and
    events to an OTLP endpoint.

    Runs once per process and lasts as long as the process.

    Raises:
        UserError: a variable is invalid. A port in use only logs a warning.
    """
    global _started
    if _started:
        return
    _started = True
    if port := os.environ.get(_PORT_VARIABLE):
        _serve_metrics(port)
    if signals := [signal for signal in ("TRACES", "LOGS") if _is_exported(signal)]:
        _export(signals)


def _is_exported(signal: str) -> bool:
    """Return True if OpenTelemetry's variables name an OTLP endpoint for TRACES or LOGS, and no other exporter."""
    names = (_OTLP_VARIABLE, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    exporters = os.environ.get(f"OTEL_{signal}_EXPORTER") or "otlp"
    return any(os.environ.get(name) for name in names) and "otlp" in exporters.split(",")


def _serve_metrics(port: str) -> None:
    try:
        from prometheus_client import REGISTRY, start_http_server
    except ImportError:
        raise UserError(f"{_PORT_VARIABLE} is set, which needs: {_INSTALL_COMMAND}") from None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise UserError(f"{_PORT_VARIABLE} is {port!r}; give a port number, such as 9464")
    host = os.environ.get(_HOST_VARIABLE) or "127.0.0.1"
    try:
        start_http_server(int(port), addr=host)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            _log.warning(
                "no metrics page: port %s is taken, maybe by another run; choose another %s", port, _PORT_VARIABLE
            )
            return
        raise UserError(
            f"{_PORT_VARIABLE}: {host}:{port} cannot be listened on: {error.strerror}; choose another"
        ) from None
    REGISTRY.register(ChatCollector())


def _export(signals: list[str]) -> None:
    """Export signals by OTLP. Without OpenTelemetry only warn, as its variables may be meant for other programs."""
    try:
        from opentelemetry.sdk.resources import Resource

        resource = Resource.create()
        if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": "rubricworks"}))
        if "TRACES" in signals:
            _export_spans(resource)
        if "LOGS" in signals:
            _export_events(resource)
    except ImportError:
        _log.warning("no spans or events are sent, though %s is set: that needs %s", _OTLP_VARIABLE, _INSTALL_COMMAND)
        return
    except ValueError as error:
        raise UserError(f"a variable of OpenTelemetry (OTEL_…) cannot be used: {error}") from None
    # Report an unreachable collector once per batch, not once per attempt.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)


def _export_spans(resource: Any) -> None:
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if not _has_provider(trace):
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)


def _export_events(resource: Any) -> None:
    from opentelemetry import _logs
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    if not _takes_events(_logs.get_logger_provider()):
        provider = LoggerProvider(resource=resource)
        provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        _logs.set_logger_provider(provider)


def event_logger(name: str) -> Any | None:
    """OpenTelemetry's logger of a module's events; None if the process has no logger provider."""
    logs = sys.modules.get("opentelemetry._logs")
    if logs is None or not _takes_events(provider := logs.get_logger_provider()):
        return None
    return provider.get_logger(name)


def _takes_events(provider: Any) -> bool:
    return hasattr(provider, "add_log_record_processor")


def span_factory(endpoint: Endpoint, purpose: str) -> Callable[[], AbstractContextManager[Any]] | None:
    """Factory of a context manager for the span of one call; None if the process has no tracer provider."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or not _has_provider(trace):
        return None
    tracer = trace.get_tracer("rubricworks.llm")
    attributes = _attributes(endpoint, purpose)

    @contextmanager
    def open_span() -> Iterator[Any]:
        # An exception's message may hold a server's text; only its class is recorded.
        with tracer.start_as_current_span(
            f"chat {endpoint.model}",
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as current:
            try:
                yield current
            except BaseException as error:
                kind = error.error_class.value if isinstance(error, ChatError) else type(error).__name__
                current.set_attribute("error.type", kind)
                current.set_status(trace.StatusCode.ERROR, kind)
                raise

    return open_span


def _has_provider(trace: Any) -> bool:
    return hasattr(trace.get_tracer_provider(), "add_span_processor")


def _attributes(endpoint: Endpoint, purpose: str) -> dict[str, str | int | float]:
    attributes: dict[str, str | int | float] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",  # the protocol, as the conventions define it
        "gen_ai.request.model": endpoint.model,
        "gen_ai.request.max_tokens": endpoint.max_tokens,
        "gen_ai.request.temperature": endpoint.temperature,
        "rubricworks.purpose": purpose,
    }
    if len(endpoint.urls) > 1 or "${" in endpoint.urls[0]:  # values of the environment are not exported
        return attributes
    url = endpoint.connect_urls()[0]
    return {**attributes, "server.address": url.host or "", "server.port": url.port or 0}


def record_usage(span: Any, usage: Usage) -> None:
    span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
    span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)
    if usage.cached_tokens:
        span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)
    if usage.estimated:
        span.set_attribute("rubricworks.usage_estimated", True)
    span.set_attribute("rubricworks.cost", usage.cost)
