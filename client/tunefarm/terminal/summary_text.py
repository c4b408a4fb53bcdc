"""The summary of a job on this machine, as text and as JSON."""

import json

from tunefarm.terminal.job_text import job_text
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.visible_text import visible_json
from tunefarm_services.tuner.summary import JobSummary


def summary_json(summary: JobSummary, numpy_latency_s: float | None) -> str:
    """One JSON object on one line. Latencies are in seconds."""
    value: dict[str, JsonValue] = {**summary.model_dump(mode="json"), "numpy_latency_s": numpy_latency_s}
    return visible_json(json.dumps(value))


def summary_text(summary: JobSummary, numpy_latency_s: float | None) -> str:
    """A few lines for each task."""
    return job_text(summary.model_dump(mode="json"), numpy_latency_s)
