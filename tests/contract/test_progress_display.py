"""What every display of a running job keeps: plain lines, and a panel on a terminal."""

import contextlib
import io
import os
import pty
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pyte
import pytest

from tests.client.tuning.test_progress_display import everything_in, progress
from tunefarm.terminal.progress_display import LivePanel, PlainLines, ProgressDisplay, progress_display
from tunefarm_schemas.views.jobs.summary import Progress

COLUMNS, ROWS = 120, 30
HOSTILE = "bad\x1b[2J\rname"


class ShownOutput:
    """A display, and everything that it wrote."""

    def __init__(self, display: ProgressDisplay, written: Callable[[], str]) -> None:
        self.display = display
        self._written = written
        self._kept = ""

    def written(self) -> str:
        self._kept += self._written()
        return self._kept

    def screen(self) -> pyte.Screen:
        """What a terminal shows after all that was written."""
        screen = pyte.Screen(COLUMNS, ROWS)
        pyte.Stream(screen).feed(self.written().replace("\n", "\r\n"))
        return screen

    def text(self) -> str:
        return "\n".join(self.screen().display)


def lines_in(parts: ExitStack) -> ShownOutput:
    stream = parts.enter_context(io.StringIO())

    def written() -> str:
        found = stream.getvalue()
        stream.seek(0)
        stream.truncate()
        return found

    return ShownOutput(progress_display(stream), written)


def panel_in(parts: ExitStack) -> ShownOutput:
    near, far = pty.openpty()
    parts.callback(os.close, near)
    stream = parts.enter_context(os.fdopen(far, "w"))

    def written() -> str:
        stream.flush()
        found: bytes = everything_in(near)
        return found.decode()

    return ShownOutput(progress_display(stream), written)


@pytest.fixture(params=[lines_in, panel_in])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShownOutput]:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("TERM", "xterm")
    with ExitStack() as parts:
        made: ShownOutput = request.param(parts)
        assert isinstance(made.display, PlainLines if request.param is lines_in else LivePanel)
        yield made


def progress_of_service(best_latency_s: float) -> Progress:
    return Progress.of(progress(best_latency_s=best_latency_s).model_dump(mode="json"))


@pytest.mark.parametrize("of", [lambda best_s: progress(best_latency_s=best_s), progress_of_service])
def test_display_shows_progress_here_and_on_service(shown: ShownOutput, of: Callable[[float], Progress]) -> None:
    with shown.display:
        shown.display.show(of(3e-6))
    for part in ("matmul [64]", "searching", "32/128", "8.0/s", "0:12"):
        assert part in shown.written()
    assert "3us" in shown.written().replace(" ", "")


def test_display_shows_each_change_of_state(shown: ShownOutput) -> None:
    with shown.display:
        shown.display.show(progress())
        verifying = progress("verifying", 4e-6)
        shown.display.show(verifying)
        shown.display.show(verifying.model_copy(update={"doing": "times it in fresh processes"}))
    for part in ("verifying", "times it in fresh processes"):
        assert part in shown.written()
    assert "4us" in shown.written().replace(" ", "")


def test_display_shows_what_job_waits_for(shown: ShownOutput) -> None:
    with shown.display:
        shown.display.show(progress().model_copy(update={"waits_for": "another process"}))
    assert "waits for another process" in shown.written()


def test_said_lines_stay_in_order(shown: ShownOutput) -> None:
    with shown.display:
        shown.display.say("first note")
        shown.display.show(progress())
        shown.display.say("second note")
    shown.display.say("last note")
    notes = [line.strip() for line in shown.text().splitlines() if "note" in line]
    assert notes == ["first note", "second note", "last note"]


def test_display_escapes_control_characters(shown: ShownOutput) -> None:
    with shown.display:
        shown.display.say(f"said {HOSTILE}")
        shown.display.show(progress().model_copy(update={"task_name": f"task {HOSTILE} [red]x[/red]"}))
    assert "\x1b[2J" not in shown.written()
    assert "said bad\\x1b[2J\\rname" in shown.text()
    assert "task bad\\x1b[2J\\rname [red]x[/red]" in shown.written()


def test_display_leaves_terminal_usable_after_an_error(shown: ShownOutput) -> None:
    with contextlib.suppress(RuntimeError), shown.display:
        shown.display.show(progress())
        raise RuntimeError("the job failed")
    assert not shown.screen().cursor.hidden
    shown.display.say("failed")
    assert shown.text().rstrip().endswith("failed")
