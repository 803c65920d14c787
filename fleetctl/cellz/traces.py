"""OpenTelemetry spans around requests, if its API is installed and CELLZ_OTEL is on; W3C context is kept."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from fleetctl.cellz.errors import SettingsInvalid
from fleetctl.cellz.http import Request


class Tracer:
    """Starts a server span a request; `on` is False when tracing is off.

    Raises SettingsInvalid when tracing is wanted and the API is not installed.
    """

    def __init__(self, wanted: bool) -> None:
        self.on = wanted
        self._tracer: Any = None
        self._extract: Any = None
        self._kind: Any = None
        if not wanted:
            return
        try:
            from opentelemetry.propagate import extract
            from opentelemetry.trace import SpanKind, get_tracer
        except ImportError as error:
            raise SettingsInvalid("CELLZ_OTEL is true and opentelemetry-api is not installed") from error
        self._tracer = get_tracer("cellz")
        self._extract = extract
        self._kind = SpanKind.SERVER

    def span(self, request: Request, route: str) -> AbstractContextManager[Any]:
        """Return the span of a request, a child of the `traceparent` it came with; no ids of cells in names."""
        if self._tracer is None:
            return nullcontext()
        carrier = {
            name.decode("ascii"): value.decode("latin-1")
            for name, value in request.headers
            if name in (b"traceparent", b"tracestate")
        }
        attributes = {"http.request.method": request.method, "http.route": route or "/api/v1/cells"}
        context = self._extract(carrier)
        span: AbstractContextManager[Any] = self._tracer.start_as_current_span(
            f"{request.method} {route}", context=context, kind=self._kind, attributes=attributes
        )
        return span
