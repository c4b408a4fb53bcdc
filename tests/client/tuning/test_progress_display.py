import contextlib
import io
import os
import pty

import pyte

from tunefarm.terminal.progress_display import (
    LivePanel,
    PlainLines,
    panel_lines,
    progress_display,
    progress_line,
    resumption_line,
)
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.tuning.job import Effort, Job, JobSpec, JobState
from tunefarm_schemas.tuning.workload import Task
from tunefarm_schemas.views.jobs.progress import TaskTime
from tunefarm_schemas.views.jobs.summary import Progress, Stage
from tunefarm_schemas.views.quantities import latency_text


def progress(stage: Stage = "searching", best_latency_s: float | None = 1e-5) -> Progress:
    return Progress(
        stage=stage,
        task_name="matmul [64]",
        elapsed_s=12.0,
        trials_done=32,
        trials_budget=128,
        best_latency_s=best_latency_s,
        untuned_latency_s=1e-3,
        trials_per_s=8.0,
        seconds_left=12.0,
        failures={"crash": 1},
        model_rank_accuracy=0.75,
    )


def everything_in(descriptor: int) -> bytes:
    os.set_blocking(descriptor, False)
    written = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(descriptor, 65536):
            written += chunk
    return written


def test_panel_shows_rate_best_speedup_failures_and_time_left() -> None:
    text = "\n".join(panel_lines(progress()))
    for part in ("32/128", "8.0/s", "10 us", "1 ms", "100x", "crash 1", "0:12 left", "0.75"):
        assert part in text


def test_progress_of_an_event_is_what_the_service_wrote() -> None:
    assert Progress.of(progress().model_dump(mode="json")) == progress()


def test_progress_of_other_versions_is_shown_as_far_as_it_is_known() -> None:
    tasks = [{"name": "conv", "trials": 3, "something": "newer"}]
    sent = {"stage": "pondering", "trials_done": 3, "failures": None, "tasks": tasks, "something": "newer"}
    assert Progress.of(sent).tasks == (TaskTime(name="conv", trials=3),)
    assert progress_line(Progress.of(sent)).split()[:3] == ["0.0s", "pondering", "trials=3/0"]
    assert panel_lines(Progress.of({}))[1] == f"best {latency_text(None)}"


def test_progress_omits_fields_of_another_type() -> None:
    read = Progress.of({"stage": "searching", "trials_done": 3, "seconds": [1.0], "failures": {"crash": []}})
    assert (read.trials_done, read.seconds, read.failures) == (3, {}, {})


def test_display_shows_wait_reason() -> None:
    waiting = progress().model_copy(update={"waits_for": "another process that measures on this host"})
    assert "waits for another process that measures on this host" in panel_lines(waiting)
    assert progress_line(waiting).endswith("(waits for another process that measures on this host)")
    assert not any("waits" in line for line in [*panel_lines(progress()), progress_line(progress())])


def test_display_shows_verification_step() -> None:
    verifying = progress("verifying").model_copy(update={"doing": "times it in 7 fresh processes"})
    assert "times it in 7 fresh processes" in panel_lines(verifying)
    assert progress_line(verifying).endswith("left=0:12 (times it in 7 fresh processes)")


def test_display_prints_lines_without_terminal() -> None:
    stream = io.StringIO()
    display = progress_display(stream)
    assert isinstance(display, PlainLines)
    with display:
        display.show(progress())
        display.show(progress())
        display.show(progress(best_latency_s=5e-6))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2, "a line only where something is new"
    assert "best=5us" in lines[1]
    assert "\x1b" not in stream.getvalue()


def test_resumption_line_names_job_and_its_options() -> None:
    spec = JobSpec(
        tasks=(Task(workload_id="w", target_id="t", name="main"),),
        effort=Effort(trials=60),
        strategy="random",
        protocol_id="cpu-hot-cache/1",
        labels={"module": "net.py"},
    )
    job = Job(
        job_id="0123",
        tenant="local",
        spec=spec,
        state=JobState.QUEUED,
        outcome=None,
        message="",
        created_at=utc_now(),
        finished_at=None,
    )
    line = resumption_line(job)
    for part in ("job 0123", "net.py", "60 trials", "random", "options of the present command are ignored"):
        assert part in line
    assert "\n" not in line


def test_panel_is_removed_at_end() -> None:
    near, far = pty.openpty()
    with os.fdopen(far, "w") as stream:
        display = progress_display(stream)
        assert isinstance(display, LivePanel)
        with display:
            display.say("a note")
            display.show(progress())
        stream.flush()
        written = everything_in(near)
    os.close(near)
    screen = pyte.Screen(100, 30)
    pyte.ByteStream(screen).feed(written)
    shown = "\n".join(screen.display)
    assert "a note" in shown
    assert "32/128" not in shown
    assert b"32/128" in written
    assert not screen.cursor.hidden


def test_panel_without_untuned_latency_has_no_ratio() -> None:
    text = "\n".join(panel_lines(progress().model_copy(update={"untuned_latency_s": None})))
    assert "best 10 us" in text
    assert "untuned" not in text
    assert "faster" not in text
