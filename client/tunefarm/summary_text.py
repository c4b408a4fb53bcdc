"""How a job ended, as text for a person and as JSON for a program."""

import json
from collections.abc import Mapping
from typing import Final

from tunefarm.quantities import counted, duration_text, failures_text, latency_text, ratio_text
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.job import StopReason
from tunefarm_schemas.visible_text import visible_json, visible_line
from tunefarm_services.tuner.summary import JobSummary, TaskSummary

STOP_TEXTS: Final[Mapping[StopReason, str]] = {
    StopReason.TRIALS: "all trials are made",
    StopReason.SECONDS: "the time is used up",
    StopReason.PLATEAU: "no gain for as many trials as --plateau says",
    StopReason.TARGET_LATENCY: "the target latency is reached",
    StopReason.DEVICE_SECONDS: "the device time is used up",
    StopReason.DEADLINE: "the deadline is reached",
    StopReason.SPACE_EXHAUSTED: "the space holds no further schedule",
    StopReason.CANCELED: "canceled",
    StopReason.INTERRUPTED: "interrupted; --resume goes on",
}


def summary_json(summary: JobSummary, numpy_latency_s: float | None) -> str:
    """One JSON object on one line. Latencies are in seconds."""
    value: dict[str, JsonValue] = {**summary.model_dump(mode="json"), "numpy_latency_s": numpy_latency_s}
    return visible_json(json.dumps(value))


def summary_text(summary: JobSummary, numpy_latency_s: float | None) -> str:
    """A few lines for each task."""
    blocks = [task_text(task, numpy_latency_s) for task in summary.tasks]
    total = f"{duration_text(summary.seconds.get('total'))} in all, job {summary.job_id}"
    return "\n".join([*blocks, total])


def task_text(task: TaskSummary, numpy_latency_s: float | None) -> str:
    """One task: untuned, tuned, numpy, and what it took."""
    lines = [visible_line(task.name), f"  untuned  {latency_text(task.untuned_latency_s)}"]
    lines.append(f"  tuned    {latency_text(task.best_latency_s)}{interval_text(task)}{gain_text(task)}")
    if numpy_latency_s is not None:
        faster = ratio_text(numpy_latency_s, task.best_latency_s)
        lines.append(f"  numpy    {latency_text(numpy_latency_s)}, so {faster} as fast as numpy")
    trials = "answered from the store, 0 trials" if task.answered_from_store else counted(task.trials, "trial")
    lines.append(f"  {trials} ({task.trials_in_store} in the store), failures {failures_text(task.failures)}")
    if task.stop_reason is not None and not task.answered_from_store:
        lines.append(f"  stopped  {STOP_TEXTS[task.stop_reason]}")
    if task.record_id:
        lines.append(f"  record   {task.record_id}")
    if task.best_latency_s is None and task.first_failure_message:
        lines.append(f"  first failure: {task.first_failure_message.strip()[:400]}")
    return "\n".join(lines)


def interval_text(task: TaskSummary) -> str:
    """The spread over fresh processes, in parentheses; empty where it was not taken."""
    if task.interval_s is None:
        return ""
    low_s, high_s = task.interval_s
    busy = "; taken while the host was busy" if task.was_busy else ""
    return f" ({latency_text(low_s)} to {latency_text(high_s)} over fresh processes{busy})"


def gain_text(task: TaskSummary) -> str:
    """How many times faster than the untuned function; empty where either is not known."""
    if task.untuned_latency_s is None or task.best_latency_s is None:
        return ""
    return f", {ratio_text(task.untuned_latency_s, task.best_latency_s)} faster"
