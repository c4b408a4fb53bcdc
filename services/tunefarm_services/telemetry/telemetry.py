"""Logs, metrics and traces of one process, from its start to its end."""

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
    """The logs, metrics and traces of a process, passed to the parts that use them."""

    metrics: Metrics
    traces: Traces


@contextmanager
def telemetry_of(
    service: str, settings: TelemetrySettings | None = None, is_well: Callable[[], bool] | None = None
) -> Iterator[Telemetry]:
    """Configure logs, metrics and traces of this process from the environment, until the block ends.

    Args:
        service: the kind of process: api, tuner, worker.
        settings: read from the environment if None.
        is_well: the health check of the metrics server, called on another thread; ``Metrics.seems_alive`` if None.

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
