"""Formats the JSON summary of a job, on this machine or on a service, as lines of text."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tunefarm.terminal.model_text import model_text
from tunefarm_schemas.tuning.job import StopReason
from tunefarm_schemas.views.quantities import counted, duration_text, failures_text, latency_text, ratio_text
from tunefarm_schemas.visible_text import visible_line

STOP_TEXTS: Final[Mapping[str, str]] = {
    StopReason.TRIALS: "all trials are done",
    StopReason.SECONDS: "the time limit is reached",
    StopReason.PLATEAU: "no gain for the number of trials in --plateau",
    StopReason.TARGET_LATENCY: "the target latency is reached",
    StopReason.DEVICE_SECONDS: "the device time limit is reached",
    StopReason.DEADLINE: "the deadline is reached",
    StopReason.SPACE_EXHAUSTED: "the space is exhausted",
    StopReason.SMALL_SHARE: "it takes too small a share of the model's time",
    StopReason.REQUESTED: "finished on request",
    StopReason.CANCELED: "canceled",
    StopReason.INTERRUPTED: "interrupted; continue with --resume",
}
MAX_SEEDS: Final = 8
"""Maximum number of seeds with a line each; ``--json`` contains all."""


def job_text(
    summary: Mapping[str, Any], numpy_latency_s: float | None = None, built: Mapping[str, Any] | None = None
) -> str:
    """A few lines for each task, or a table for those of a model, and one line for the job.

    ``built`` are the figures of the model's build.
    """
    tasks: Sequence[Mapping[str, Any]] = summary.get("tasks") or ()
    total = duration_text(dict(summary.get("seconds") or {}).get("total"))
    is_whole = all(_trials_of_latest_run(task) == task.get("trials") for task in tasks)
    span = "in total" if is_whole else "in the latest run"
    texts = (
        [model_text(summary, built)]
        if summary.get("of_model")
        else [task_text(task, numpy_latency_s) for task in tasks]
    )
    return "\n".join([*texts, f"{total} {span}, job {summary['job_id']}"])


def task_text(task: Mapping[str, Any], numpy_latency_s: float | None = None) -> str:
    """One task: latencies of the untuned and tuned function, NumPy and others, then trials and failures."""
    best_s, untuned_s = task.get("best_latency_s"), task.get("untuned_latency_s")
    lines = [visible_line(str(task.get("name"))), f"  untuned  {untuned_text(task)}"]
    spread = interval_text(task.get("interval_s"), was_busy=bool(task.get("was_busy")))
    gain = gain_text(untuned_s, best_s, about=bool(task.get("untuned_is_estimate")))
    lines.append(f"  tuned    {latency_text(best_s)}{spread}{gain}")
    roofline = roofline_text(task)
    if roofline:
        lines.append(f"  roofline {roofline}")
    lines += [f"    {name:<16}  {time_text(time)}" for name, time in named_times(task)]
    if numpy_latency_s is not None:
        faster = ratio_text(numpy_latency_s, best_s)
        lines.append(f"  numpy    {latency_text(numpy_latency_s)}, so {faster} as fast as numpy")
    lines.append(f"  {trials_text(task)}, failures {failures_text(dict(task.get('failures') or {}))}")
    if task.get("stop_reason") and not task.get("answered_from_store"):
        lines.append(f"  stopped  {STOP_TEXTS.get(str(task['stop_reason']), task['stop_reason'])}")
    if task.get("record_id"):
        lines.append(f"  record   {task['record_id']}")
    if best_s is None and task.get("first_failure_message"):
        lines.append(f"  first failure: {str(task['first_failure_message']).strip()[:400]}")
    return "\n".join(lines)


def roofline_text(task: Mapping[str, Any]) -> str:
    """The roofline of a task, what bounds it, and the share of it that is reached; a dash if a peak is unknown.

    Empty for summaries of versions without rooflines.
    """
    roofline: Mapping[str, Any] = task.get("roofline") or {}
    bound_s, best_s = roofline.get("latency_s"), task.get("best_latency_s")
    if bound_s is None:
        return "-" if "roofline" in task else ""
    reached = f", of which {bound_s / best_s:.0%} is reached" if best_s else ""
    return f"{latency_text(bound_s)}, bound by {roofline.get('bound')}{reached}"


def named_times(task: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Other latencies: the job's own best and the store's best if they differ, and the seeds."""
    own = (("this run's best", task.get("run_best")), ("the store's best", task.get("store_best")))
    times = [(name, time) for name, time in own if time]
    seeds: Sequence[Mapping[str, Any]] = task.get("seeds") or ()
    if len(seeds) == 1:
        return [*times, ("the seed", seeds[0])]
    return [*times, *((f"seed {number}", time) for number, time in enumerate(seeds[:MAX_SEEDS], start=1))]


def time_text(time: Mapping[str, Any]) -> str:
    """The latency of a schedule and how it was timed, or the reason for its failure."""
    if time.get("failure"):
        return visible_line(str(time["failure"]))[:400]
    if time.get("latency_s") is None:
        return f"at least {latency_text(time.get('at_least_s'))}, timing ended early {time.get('timed')}"
    return f"{latency_text(time['latency_s'])}, timed {time.get('timed')}"


def trials_text(task: Mapping[str, Any]) -> str:
    """The number of trials of all runs of the job, and of those in the store."""
    trials = int(task.get("trials") or 0)
    text = counted(trials, "trial")
    latest = _trials_of_latest_run(task)
    if task.get("answered_from_store"):
        text = f"answered from the store, {text}"
    elif latest != trials:
        text = f"{text} over all runs, {latest} in the latest"
    in_store = task.get("trials_in_store")
    return text if in_store is None else f"{text} ({in_store} in the store)"


def interval_text(interval_s: Sequence[float] | None, *, was_busy: bool = False) -> str:
    """The spread over fresh processes, in parentheses; empty if it was not measured."""
    busy = "taken while the host was busy" if was_busy else ""
    if interval_s is None:
        return f" ({busy})" if busy else ""
    low_s, high_s = interval_s
    spread = f"{latency_text(low_s)} to {latency_text(high_s)} over fresh processes"
    return f" ({'; '.join(filter(None, (spread, busy)))})"


def untuned_text(task: Mapping[str, Any]) -> str:
    """The latency of the untuned function, marked if it is an estimate."""
    if not task.get("untuned_is_estimate"):
        return latency_text(task.get("untuned_latency_s"))
    return f"about {latency_text(task.get('untuned_latency_s'), 2)}, estimated from a part of its steps"


def gain_text(untuned_s: float | None, best_s: float | None, *, about: bool = False) -> str:
    """The speedup over the untuned function; empty if either latency is unknown."""
    if untuned_s is None or best_s is None:
        return ""
    return (
        f", about {ratio_text(untuned_s, best_s, 2)} faster" if about else f", {ratio_text(untuned_s, best_s)} faster"
    )


def _trials_of_latest_run(task: Mapping[str, Any]) -> int:
    latest = task.get("trials_in_run")
    return int(task.get("trials") or 0) if latest is None else int(latest)
