"""Logs, metrics and traces of one process, begun at its start and closed at its end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tunefarm_services.telemetry.logs import configure_logs
from tunefarm_services.telemetry.metrics import Metrics
from tunefarm_services.telemetry.metrics_server import MetricsServer
from tunefarm_services.telemetry.settings import TelemetrySettings
from tunefarm_services.telemetry.traces import Traces, configure_traces


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What a process tells itself through. Handed down to whoever has something to tell."""

    metrics: Metrics
    traces: Traces


@contextmanager
def telemetry_of(
    service: str, settings: TelemetrySettings | None = None, is_well: Callable[[], bool] | None = None
) -> Iterator[Telemetry]:
    """Configure logs, metrics and traces of this process as the environment says, until the block ends.

    Args:
        service: what this process is: api, tuner, worker.
        settings: read from the environment when None.
        is_well: what ``/healthz`` of the metrics server asks, from another thread; ``Metrics.seems_alive`` when None.

    Raises:
        BadInput: a setting cannot be used.
    """
    settings = settings or TelemetrySettings()
    metrics = Metrics(service)

    def count(level: str, event: str) -> None:
        metrics.log_lines.labels(level=level, event=event).inc()

    configure_logs(service, settings.log_level, settings.log_format == "json", count=count)
    traces = configure_traces(service, settings.traces_endpoint)
    try:
        if settings.metrics_listen is None:
            yield Telemetry(metrics, traces)
            return
        with MetricsServer(settings.metrics_listen, metrics, is_well or metrics.seems_alive):
            yield Telemetry(metrics, traces)
    finally:
        traces.close()
