"""Shows a running job: a live panel on a terminal, plain lines elsewhere."""

import sys
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Protocol, Self, TextIO

from tunefarm.terminal.console import say
from tunefarm.terminal.resume_option import module_of
from tunefarm_schemas.views.jobs.progress import TaskTime
from tunefarm_schemas.views.quantities import duration_text, failures_text, latency_text, ratio_text
from tunefarm_schemas.visible_text import visible, visible_line

if TYPE_CHECKING:
    from tunefarm_schemas.tuning.job import Job
    from tunefarm_schemas.views.jobs.summary import Progress

PLAIN_LINE_INTERVAL_S: Final = 5.0
BAR_CELLS: Final = 30
REFRESH_HZ: Final = 4
MAX_TASKS: Final = 8
"""Tasks of a model with a line each in the panel."""
NAME_CHARACTERS: Final = 36


class ProgressDisplay(AbstractContextManager["ProgressDisplay"], Protocol):
    """Shows the progress of a job."""

    def show(self, progress: "Progress") -> None:
        """Show the latest state. Called often; must be cheap."""

    def say(self, text: str) -> None:
        """Print one permanent line of text."""


def progress_display(stream: TextIO | None = None) -> ProgressDisplay:
    """A live panel when ``stream`` (standard error by default) is a terminal, plain lines otherwise."""
    stream = stream or sys.stderr
    return LivePanel(stream) if stream.isatty() else PlainLines(stream)


class PlainLines:
    """One line for each improvement, change of stage, and every few seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last_shown_s = 0.0
        self._last_mark: tuple[object, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: plain lines need no cleanup."""

    def show(self, progress: "Progress") -> None:
        """Print a line after a change, or if none was printed for a while."""
        now_s = time.monotonic()
        mark = (progress.stage, progress.task_name, progress.best_latency_s, progress.doing)
        if mark == self._last_mark and now_s - self._last_shown_s < PLAIN_LINE_INTERVAL_S:
            return
        self._last_shown_s, self._last_mark = now_s, mark
        self.say(visible_line(progress_line(progress)))

    def say(self, text: str) -> None:
        """Print the line."""
        say(text, stream=self._stream)


class LivePanel:
    """A panel of a few lines, updated in place."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream)
        self._live = Live(console=self._console, refresh_per_second=REFRESH_HZ, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, progress: "Progress") -> None:
        """Show the latest state in the panel."""
        from rich.panel import Panel
        from rich.text import Text

        title = visible_line(f"{progress.task_name or 'tunefarm'}: {progress.stage}")
        lines = "\n".join(map(visible_line, panel_lines(progress)))
        self._live.update(Panel(Text(lines), title=Text(title), title_align="left"))

    def say(self, text: str) -> None:
        """Print the line above the panel."""
        self._console.print(visible(text), markup=False, highlight=False, emoji=False)


def panel_lines(progress: "Progress") -> list[str]:
    """The lines of the panel: progress, rate, best latency, failures, and the current activity."""
    filled = round(BAR_CELLS * min(1.0, progress.trials_done / max(1, progress.trials_budget)))
    bar = "#" * filled + "." * (BAR_CELLS - filled)
    share = progress.model_rank_accuracy
    accuracy = "" if share is None else f"   model accuracy {share:.2f} (chance 0.50)"
    about, digits = ("about ", 2) if progress.untuned_is_rough else ("", 4)
    gain = ""
    if progress.untuned_latency_s is not None:
        faster = ratio_text(progress.untuned_latency_s, progress.best_latency_s, min(digits, 3))
        gain = f"   untuned {about}{latency_text(progress.untuned_latency_s, digits)}   {about}{faster} faster"
    doing = [progress.doing] if progress.doing else []
    waits = [f"waits for {progress.waits_for}"] if progress.waits_for else []
    return [
        f"[{bar}] {progress.trials_done}/{progress.trials_budget} trials   {progress.trials_per_s:.1f}/s   "
        f"{duration_text(progress.elapsed_s)} elapsed, {duration_text(progress.seconds_left)} left",
        f"best {latency_text(progress.best_latency_s)}{gain}",
        f"failures {failures_text(progress.failures)}{accuracy}",
        *task_lines(progress),
        *doing,
        *waits,
    ]


def task_lines(progress: "Progress") -> list[str]:
    """A line for each of the tasks of a model that take most of its time; none for other jobs."""
    if not progress.tasks:
        return []
    tasks = progress.tasks
    ranked = sorted(tasks, key=lambda task: -task.weight * (task.best_latency_s or 0.0))
    names = [task.name[:NAME_CHARACTERS] for task in ranked[:MAX_TASKS]]
    width = max(map(len, names))
    lines = [
        f"  {name:<{width}}  {f'{task.weight:g}x':>4}  {latency_text(task.best_latency_s):>9}"
        f"{_gain_of_task(task):>8}  {'-' if task.share is None else f'{task.share:.0%}':>4}  {task.trials} trials"
        for name, task in zip(names, ranked, strict=False)
    ]
    rest = len(ranked) - len(lines)
    model_s = model_time_s(progress)
    return [f"model {latency_text(model_s)}", *lines, *([f"  and {rest} more"] if rest else [])]


def model_time_s(progress: "Progress") -> float | None:
    """The predicted time of a model: calls times the best latencies; None until each task has one."""
    tasks = progress.tasks
    times_s = [task.weight * task.best_latency_s for task in tasks if task.best_latency_s is not None]
    return sum(times_s) if times_s and len(times_s) == len(progress.tasks) else None


def _gain_of_task(task: TaskTime) -> str:
    return ratio_text(task.untried_latency_s, task.best_latency_s)


def resumption_line(job: "Job") -> str:
    """One line about a resumed job, which keeps its options from when it was created."""
    spec = job.spec
    return (
        f"resuming job {job.job_id}: {module_of(job)}, {spec.effort.trials} trials, "
        f"{spec.strategy} search; the options of the present command are ignored"
    )


def progress_line(progress: "Progress") -> str:
    """One line for logs: the stage in words, followed by ``name=value`` pairs."""
    speedup = ratio_text(progress.untuned_latency_s, progress.best_latency_s, 2 if progress.untuned_is_rough else 3)
    if progress.untuned_is_rough and speedup != "-":
        speedup = f"~{speedup}"
    doing = f" ({progress.doing})" if progress.doing else ""
    waits = f" (waits for {progress.waits_for})" if progress.waits_for else ""
    model = f" model={latency_text(model_time_s(progress)).replace(' ', '')}" if progress.tasks else ""
    return (
        f"{progress.elapsed_s:7.1f}s {progress.stage} {progress.task_name} "
        f"trials={progress.trials_done}/{progress.trials_budget} rate={progress.trials_per_s:.1f}/s "
        f"best={latency_text(progress.best_latency_s).replace(' ', '')} speedup={speedup}{model} "
        f"failures={sum(progress.failures.values())} left={duration_text(progress.seconds_left)}{doing}{waits}"
    )
