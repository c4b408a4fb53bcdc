"""The summary of a job on this machine, as text and as JSON."""

import json
from collections.abc import Mapping

from tunefarm.terminal.job_text import job_text
from tunefarm.terminal.model_text import built_text
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.views.jobs.summary import JobSummary
from tunefarm_schemas.views.jobs.waterfall import waterfall
from tunefarm_schemas.visible_text import visible_json


def summary_json(
    summary: JobSummary, numpy_latency_s: float | None, model: Mapping[str, JsonValue] | None = None
) -> str:
    """One JSON object on one line. Latencies are in seconds. ``model`` are the figures of a built model."""
    value: dict[str, JsonValue] = {**summary.model_dump(mode="json"), "numpy_latency_s": numpy_latency_s}
    if model is not None:
        value["model"] = dict(model)
    return visible_json(json.dumps(value))


def summary_text(
    summary: JobSummary, numpy_latency_s: float | None, model: Mapping[str, JsonValue] | None = None
) -> str:
    """A few lines for each task, or the table of a model with the times of its build."""
    figures = summary.model_dump(mode="json")
    text = job_text(figures, numpy_latency_s, model)
    return text if model is None else f"{text}\n{built_text(model, waterfall(figures))}"
