"""Formats events of a job as lines or for a display."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_jsonable_python

from tunefarm.terminal.job_text import gain_text
from tunefarm.terminal.progress_display import ProgressDisplay
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.tuning.job import Event
from tunefarm_schemas.views.jobs.summary import Progress
from tunefarm_schemas.views.quantities import failures_text, latency_text
from tunefarm_schemas.visible_text import visible_line

PROGRESS: Final = "progress"


def show(event: Event, display: ProgressDisplay) -> None:
    """Show an event on a display: progress in its panel, any other event as a line."""
    if event.kind == PROGRESS:
        display.show(Progress.of(event.data))
    elif event.kind != "summary":
        display.say(event_line(event))


def event_line(event: Event) -> str:
    """One line with the time, the kind and the data of an event."""
    return visible_line(f"{event.at[:19]} {event.kind} {_words(event)}".rstrip())


def event_json(event: Event) -> JsonValue:
    """An event as JSON, with null for the numbers that JSON lacks."""
    fields: JsonValue = to_jsonable_python(event.model_dump(), inf_nan_mode="null")
    return fields


def _words(event: Event) -> str:
    data: Mapping[str, Any] = event.data
    match event.kind:
        case "state":
            parts = (data.get("state"), data.get("outcome"), data.get("message"))
            return " ".join(str(part) for part in parts if part)
        case "improved":
            return f"{data.get('task')} to {latency_text(data.get('latency_s'))} after {data.get('trials')} trials"
        case "progress":
            progress = Progress.of(data)
            return (
                f"{progress.stage} {progress.task_name} trials={progress.trials_done}/{progress.trials_budget} "
                f"best={latency_text(progress.best_latency_s).replace(' ', '')}"
            )
        case "summary":
            return "; ".join(_task_words(task) for task in data.get("tasks", ()))
        case _:
            return " ".join(f"{name}={_plain(value)}" for name, value in data.items())


def _task_words(task: Mapping[str, Any]) -> str:
    best_s, untuned_s = task.get("best_latency_s"), task.get("untuned_latency_s")
    gain = gain_text(untuned_s, best_s, about=bool(task.get("untuned_is_estimate")))
    gain = f"{gain} than untuned" if gain else ""
    failures = task.get("failures") or {}
    failed = f", failures {failures_text(failures)}" if failures else ""
    return f"{task.get('name')} {latency_text(best_s)}{gain} after {task.get('trials')} trials{failed}"


def _plain(value: object) -> str:
    return " ".join(str(value).split())[:300]
