"""Metrics of a process for Prometheus."""

import time
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from tunefarm_services.telemetry.shared_figures import shared_folder

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

STALLED_S: Final = 90.0
"""Time after which a loop that has not completed a pass hangs. Waiting for the database happens in shorter steps."""

_REQUEST_SECONDS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_STAGE_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_JOB_SECONDS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

ALARMING: Final = (
    ("warning", "a heartbeat is not understood"),
    ("warning", "a message is not understood"),
    ("error", "an order is not understood, and dropped"),
    ("info", "a result is dropped: doubled, late or not asked for"),
)
"""Level and event of the log lines that alerts count."""


class Metrics:
    """All metrics that tunefarm counts, in a registry of its own. Thread-safe.

    Labels have few values: never an id of a job, a tenant or a token.
    """

    def __init__(self, service: str) -> None:
        """Create all metrics at zero, for a process of kind ``service``: api, tuner, worker."""
        self.registry = CollectorRegistry()
        self._others: list[Collector] = []
        self.build = Gauge(
            "tunefarm_build_info",
            "1, with what is running.",
            ["service", "version"],
            registry=self.registry,
            multiprocess_mode="max",
        )
        self.build.labels(service=service, version=version("tunefarm-services")).set(1)
        self.log_lines = Counter(
            "tunefarm_log_lines_total", "Log lines by level and event.", ["level", "event"], registry=self.registry
        )
        for level, event in ALARMING:  # create them at 0: Prometheus' increase() misses a counter that starts at 1
            self.log_lines.labels(level=level, event=event)
        self._add_api()
        self._add_tuner()
        self._add_farm()

    def text(self) -> bytes:
        """The response to a scrape, of type CONTENT_TYPE: over all processes that share their metrics."""
        folder = shared_folder()
        if folder is None:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together, str(folder))  # type: ignore[no-untyped-call]
        for collector in self._others:
            together.register(collector)
        return generate_latest(together)

    def seems_alive(self) -> bool:
        """Whether the main loop of this process completed a pass recently. True before its first pass."""
        seen_s = self.registry.get_sample_value("tunefarm_tuner_alive_timestamp_seconds") or 0.0
        return seen_s == 0.0 or time.time() - seen_s < STALLED_S

    def collect_from(self, collector: Collector) -> None:
        """Include ``collector`` in every scrape."""
        self.registry.register(collector)
        self._others.append(collector)

    def _add_api(self) -> None:
        """Requests, by the route's template and never by the path."""
        registry = self.registry
        self.http_requests = Counter(
            "tunefarm_http_requests_total", "Requests answered.", ["method", "route", "status"], registry=registry
        )
        self.http_request_seconds = Histogram(
            "tunefarm_http_request_seconds",
            "Time until a request was answered, without event streams.",
            ["method", "route"],
            buckets=_REQUEST_SECONDS,
            registry=registry,
        )
        self.http_requests_in_flight = Gauge(
            "tunefarm_http_requests_in_flight",
            "Requests in progress.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.event_streams = Gauge(
            "tunefarm_event_streams", "Open event streams.", registry=registry, multiprocess_mode="livesum"
        )
        self.requests_refused = Counter(
            "tunefarm_requests_refused_total",
            "Requests rejected: rate, quota, size, token, scope.",
            ["reason"],
            registry=registry,
        )
        self.intake_seconds = Histogram(
            "tunefarm_intake_seconds",
            "Time that the intake child took to read a module.",
            ["result"],
            buckets=_STAGE_SECONDS,
            registry=registry,
        )

    def _add_tuner(self) -> None:
        """Jobs, from lease to outcome."""
        registry = self.registry
        self.jobs_running = Gauge(
            "tunefarm_jobs_running", "Jobs that this tuner runs.", registry=registry, multiprocess_mode="livesum"
        )
        self.jobs_leased = Counter("tunefarm_jobs_leased_total", "Jobs leased.", registry=registry)
        self.jobs_finished = Counter("tunefarm_jobs_finished_total", "Jobs finished.", ["outcome"], registry=registry)
        self.job_seconds = Histogram(
            "tunefarm_job_seconds",
            "Time from the lease of a job to its end.",
            ["outcome"],
            buckets=_JOB_SECONDS,
            registry=registry,
        )
        self.leases_lost = Counter(
            "tunefarm_leases_lost_total",
            "Jobs that another tuner took over while this one held their lease.",
            registry=registry,
        )
        self.store_errors = Counter(
            "tunefarm_store_errors_total", "Failed calls of the store.", ["kind"], registry=registry
        )
        self.tuner_alive = Gauge(
            "tunefarm_tuner_alive_timestamp_seconds",
            "When the tuner last looked for work.",
            registry=registry,
            multiprocess_mode="max",
        )

    def _add_farm(self) -> None:
        """Candidates, from dispatch to stored measurement."""
        registry = self.registry
        self.measurements = Counter(
            "tunefarm_measurements_total",
            "Measurements committed, by result: timing, stopped, or the reason of the failure.",
            ["result"],
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "tunefarm_stage_seconds",
            "Time that a candidate spent in a stage.",
            ["stage"],
            buckets=_STAGE_SECONDS,
            registry=registry,
        )
        self.device_seconds = Counter(
            "tunefarm_device_seconds_total", "Time that devices spent on candidates.", registry=registry
        )
