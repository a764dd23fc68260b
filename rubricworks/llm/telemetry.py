"""Sight from outside: Prometheus counters and OpenTelemetry spans, for who has them; nothing is paid without.

    RUBRICWORKS_METRICS_PORT=9464 rubricworks run my.yaml        # http://localhost:9464/metrics
    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 rubricworks run my.yaml

The counters are the clients' own totals, read when they are asked for. Spans follow the conventions for generative AI
(`gen_ai.*`); they hold names and numbers, never a prompt, an answer or what a server said of them.
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

_PORT, _HOST = "RUBRICWORKS_METRICS_PORT", "RUBRICWORKS_METRICS_HOST"
_OTLP = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_INSTALL = "pip install 'rubricworks[telemetry]'"

_log = logging.getLogger(__name__)


class _Watched(NamedTuple):
    """What outlives a client."""

    purpose: str
    endpoint: Endpoint
    totals: Totals
    limiter: weakref.ref[Limiter]


_watched: dict[int, _Watched] = {}
_gone: "deque[int]" = deque()
"""Of clients that are no more. Their finalizers may run anywhere, also where the lock is held, so they take none."""
_ended: dict[tuple[str, str], Totals] = defaultdict(Totals)
"""By purpose and model, so that a counter never falls."""
_throttled: Counter[tuple[str, str]] = Counter()
_lock = threading.Lock()
_started = False


class WatchedClient(Protocol):
    """The parts of a chat client that are read."""

    purpose: str
    endpoint: Endpoint
    totals: Totals
    limiter: Limiter


def watch(client: WatchedClient) -> None:
    """Let `ChatCollector` read this client's totals, also after its end."""
    watched = _Watched(client.purpose, client.endpoint, client.totals, weakref.ref(client.limiter))
    with _lock:
        _settle()
        _watched[id(watched)] = watched
    weakref.finalize(client, _gone.append, id(watched)).atexit = False


def count_throttled(endpoint: Endpoint) -> None:
    """A request was turned away by a server that asks for patience."""
    with _lock:
        _throttled[endpoint.model, endpoint.url] += 1


def _settle() -> None:
    while _gone:
        watched = _watched.pop(_gone.popleft())
        _ended[watched.purpose, watched.endpoint.model].add(watched.totals)


class ChatCollector:
    """Collects every client's totals for Prometheus: `REGISTRY.register(ChatCollector())`."""

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        names, servers = ["purpose", "model"], ["model", "endpoint"]
        calls = CounterMetricFamily("rubricworks_chat_calls", "Calls, cached ones included", labels=names)
        cached = CounterMetricFamily("rubricworks_chat_cached", "Calls answered from the cache", labels=names)
        requests = CounterMetricFamily("rubricworks_chat_requests", "HTTP requests, retries included", labels=names)
        errors = CounterMetricFamily("rubricworks_chat_errors", "Calls that failed for good", labels=[*names, "class"])
        tokens = CounterMetricFamily("rubricworks_chat_tokens", "Tokens", labels=[*names, "kind"])
        dollars = CounterMetricFamily("rubricworks_chat_cost_dollars", "Dollars", labels=names)
        throttled = CounterMetricFamily("rubricworks_chat_throttled", "Requests turned away by 429", labels=servers)
        in_flight = GaugeMetricFamily("rubricworks_chat_in_flight", "Requests in flight", labels=servers)
        limit = GaugeMetricFamily("rubricworks_chat_limit", "Requests that may be in flight", labels=servers)
        sums, limiters, turned_away = _state()
        for key, total in sorted(sums.items()):
            calls.add_metric(key, total.calls)
            cached.add_metric(key, total.cached)
            requests.add_metric(key, total.requests)
            tokens.add_metric([*key, "prompt"], total.prompt_tokens)
            tokens.add_metric([*key, "completion"], total.completion_tokens)
            dollars.add_metric(key, total.cost)
            for kind, count in total.errors.items():
                errors.add_metric([*key, kind.value], count)
        for server, count in turned_away.items():
            throttled.add_metric(server, count)
        for server, several in limiters.items():
            in_flight.add_metric(server, sum(limiter.in_flight for limiter in several))
            limit.add_metric(server, sum(int(limiter.limit) for limiter in several))
        return (calls, cached, requests, errors, tokens, dollars, throttled, in_flight, limit)


def _state() -> tuple[dict[tuple[str, str], Totals], dict[tuple[str, str], set[Limiter]], Counter[tuple[str, str]]]:
    """Totals by purpose and model; limiters, and requests turned away, by model and endpoint."""
    sums: dict[tuple[str, str], Totals] = defaultdict(Totals)
    limiters: dict[tuple[str, str], set[Limiter]] = defaultdict(set)
    with _lock:
        _settle()
        for key, ended in _ended.items():
            sums[key].add(ended)
        for watched in _watched.values():
            endpoint = watched.endpoint
            sums[watched.purpose, endpoint.model].add(watched.totals)
            if (limiter := watched.limiter()) is not None:
                limiters[endpoint.model, endpoint.url].add(limiter)
        return sums, limiters, _throttled.copy()


def serve_from_environment() -> None:
    """Start what the environment asks for: the metrics page on RUBRICWORKS_METRICS_PORT, spans to an OTLP endpoint.

    Once in a process; what was started ends with it.

    Raises:
        UserError: a variable cannot be used. A port that is taken is none: it is warned of, and work goes on.
    """
    global _started
    if _started:
        return
    _started = True
    if port := os.environ.get(_PORT):
        _serve_metrics(port)
    if any(os.environ.get(name) for name in _OTLP):
        _send_spans()


def _serve_metrics(port: str) -> None:
    try:
        from prometheus_client import REGISTRY, start_http_server
    except ImportError:
        raise UserError(f"{_PORT} is set, which needs: {_INSTALL}") from None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise UserError(f"{_PORT} is {port!r}; give a port number, such as 9464")
    host = os.environ.get(_HOST) or "127.0.0.1"
    try:
        start_http_server(int(port), addr=host)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            _log.warning("no metrics page: port %s is taken, maybe by another run; choose another %s", port, _PORT)
            return
        raise UserError(f"{_PORT}: {host}:{port} cannot be listened on: {error.strerror}; choose another") from None
    REGISTRY.register(ChatCollector())


def _send_spans() -> None:
    """The variables belong to OpenTelemetry, and may be meant for other programs: without it, a warning is enough."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _log.warning("no spans are sent, though %s is set: they need %s", _OTLP[0], _INSTALL)
        return
    if _has_provider(trace):
        return
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "rubricworks"}))
    try:
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ValueError as error:
        raise UserError(f"a variable of OpenTelemetry (OTEL_…) cannot be used: {error}") from None
    trace.set_tracer_provider(provider)
    # A collector that is away is said once per batch, not once per try.
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)


def span_maker(endpoint: Endpoint, purpose: str) -> Callable[[], AbstractContextManager[Any]] | None:
    """Opens the span of one call; None unless this process has set up a tracer provider."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None or not _has_provider(trace):
        return None
    tracer = trace.get_tracer("rubricworks.llm")
    attributes = _attributes(endpoint, purpose)

    @contextmanager
    def span() -> Iterator[Any]:
        # An exception's message may hold what a server said; only its class is told.
        with tracer.start_as_current_span(
            f"chat {endpoint.model}",
            kind=trace.SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            try:
                yield opened
            except BaseException as error:
                kind = error.error_class.value if isinstance(error, ChatError) else type(error).__name__
                opened.set_attribute("error.type", kind)
                opened.set_status(trace.StatusCode.ERROR, kind)
                raise

    return span


def _has_provider(trace: Any) -> bool:
    return hasattr(trace.get_tracer_provider(), "add_span_processor")


def _attributes(endpoint: Endpoint, purpose: str) -> dict[str, str | int | float]:
    attributes: dict[str, str | int | float] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",  # the protocol, as the conventions have it
        "gen_ai.request.model": endpoint.model,
        "gen_ai.request.max_tokens": endpoint.max_tokens,
        "gen_ai.request.temperature": endpoint.temperature,
        "rubricworks.purpose": purpose,
    }
    if endpoint.replicas or "${" in endpoint.url:  # what stands in the environment stays there
        return attributes
    url = endpoint.connect_urls()[0]
    return {**attributes, "server.address": url.host or "", "server.port": url.port or 0}


def tell(span: Any, usage: Usage) -> None:
    span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
    span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)
    span.set_attribute("rubricworks.cost", usage.cost)
