"""Spans of work, exported to an OpenTelemetry collector if one is configured.

Without a collector nothing of OpenTelemetry is imported; trace ids are still propagated and logged, so that the log
lines of several processes about one operation can be correlated.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.traceparent import Traceparent
from tunefarm_services.telemetry.logs import bind

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

_HERE: Final[ContextVar[Traceparent | None]] = ContextVar("tunefarm_traceparent", default=None)

AttributeValue = str | int | float | bool


class Traces:
    """Creates spans. Thread-safe."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """Export through ``provider``, or only propagate ids if it is None."""
        self._provider = provider

    @contextmanager
    def span(
        self, name: str, *, parent: Traceparent | str | None = None, **attributes: AttributeValue | None
    ) -> Iterator[Traceparent]:
        """Open a span around the block. Yields the context to propagate in messages sent from inside.

        Args:
            name: the operation, the same for all of its kind: ``measure``, not ``measure 17``.
            parent: from a request or a message; if None or malformed, the enclosing span.
            attributes: of the span; None is omitted.
        """
        above = Traceparent.parse(parent) if isinstance(parent, str) else parent
        above = above or _HERE.get()
        known = {key: value for key, value in attributes.items() if value is not None}
        if self._provider is None:
            with _entered(above.child() if above is not None else Traceparent.new()) as here:
                yield here
            return
        with self._exported(self._provider, name, above, known) as exported, _entered(exported) as here:
            yield here

    def ended(self, name: str, parts_s: Mapping[str, float], **attributes: AttributeValue) -> None:
        """Record work of another host that ended now, as a child of the enclosing span.

        Args:
            name: the operation.
            parts_s: its consecutive parts with their seconds; each becomes a child span.
            attributes: of the span.
        """
        above = _HERE.get()
        if self._provider is None or above is None:
            return
        tracer = self._provider.get_tracer("tunefarm")
        start_ns = time.time_ns() - round(sum(parts_s.values()) * 1e9)
        whole = tracer.start_span(name, context=_below(above), attributes=attributes, start_time=start_ns)
        within = _below(_place_of(whole))
        for part, seconds in parts_s.items():
            span = tracer.start_span(part, context=within, start_time=start_ns)
            start_ns += round(seconds * 1e9)
            span.end(start_ns)
        whole.end(start_ns)

    def close(self) -> None:
        """Send pending spans, for at most some seconds."""
        if self._provider is not None:
            self._provider.shutdown()

    @staticmethod
    @contextmanager
    def _exported(
        provider: TracerProvider, name: str, above: Traceparent | None, attributes: dict[str, AttributeValue]
    ) -> Iterator[Traceparent]:
        tracer = provider.get_tracer("tunefarm")
        with tracer.start_as_current_span(name, context=_below(above), attributes=attributes) as span:
            yield _place_of(span)


def configure_traces(service: str, endpoint: str | None, exporter: SpanExporter | None = None) -> Traces:
    """The traces of this process.

    Args:
        service: the kind of process: api, tuner, worker.
        endpoint: an OTLP collector's address, such as ``http://collector:4318``; nothing is exported if None.
        exporter: replaces the exporter to ``endpoint``.

    Raises:
        BadInput: the endpoint is not an address, or OpenTelemetry is not installed.
    """
    if endpoint is None and exporter is None:
        return Traces()
    if endpoint is not None and not endpoint.startswith(("http://", "https://")):
        raise BadInput("TUNEFARM_TRACES_ENDPOINT", f"{endpoint!r} is not an address.", "Write http://collector:4318.")
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        fix = "Install opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http, or unset it."
        raise BadInput("TUNEFARM_TRACES_ENDPOINT", f"OpenTelemetry is not installed: {error}.", fix) from error
    provider = TracerProvider(resource=Resource.create({"service.name": f"tunefarm-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(exporter or _otlp_exporter(str(endpoint))))
    return Traces(provider)


def here() -> Traceparent | None:
    """The current span, to propagate in a message."""
    return _HERE.get()


def _below(above: Traceparent | None) -> Context:
    """The OpenTelemetry context for children of ``above``; a new trace for None."""
    from opentelemetry import context, trace

    if above is None:
        return context.Context()
    parent = trace.SpanContext(
        trace_id=int(above.trace_id, 16),
        span_id=int(above.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(above.sampled)),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), context.Context())


def _place_of(span: Span) -> Traceparent:
    here = span.get_span_context()
    return Traceparent(f"{here.trace_id:032x}", f"{here.span_id:016x}", bool(here.trace_flags.sampled))


@contextmanager
def _entered(traceparent: Traceparent) -> Iterator[Traceparent]:
    before = _HERE.set(traceparent)
    try:
        with bind(trace_id=traceparent.trace_id, span_id=traceparent.span_id):
            yield traceparent
    finally:
        _HERE.reset(before)


def _otlp_exporter(endpoint: str) -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=5)
