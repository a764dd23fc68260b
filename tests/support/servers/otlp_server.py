"""An OpenTelemetry collector on loopback that keeps the spans and events that it is sent."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class OtlpServer:
    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        """Messages with spans."""
        self.log_payloads: list[bytes] = []
        """Messages with events."""
        payloads = {"/v1/traces": self.payloads, "/v1/logs": self.log_payloads}

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.headers["Content-Type"] == "application/x-protobuf"
                payloads[self.path].append(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(payload) for payload in self.payloads]

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def events(self) -> list[Any]:
        """Log records, in the order in which they came."""
        return [
            record
            for payload in self.log_payloads
            for resource in ExportLogsServiceRequest.FromString(payload).resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    @property
    def services(self) -> set[str]:
        resources = [resource.resource for request in self.requests for resource in request.resource_spans]
        return {attributes_of(resource)["service.name"] for resource in resources}


def attributes_of(holder: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in holder.attributes
    }
