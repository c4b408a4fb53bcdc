"""Untrusted text is printed to a terminal with control characters escaped."""

import io
import json
import math
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.command_server import run_command
from tunefarm.remote.event_text import event_json, event_line
from tunefarm.terminal.console import say, say_json
from tunefarm.terminal.progress_display import LivePanel, PlainLines
from tunefarm.terminal.tables import print_rows
from tunefarm_schemas.tuning.job import Event
from tunefarm_schemas.views.jobs.summary import Progress

CLEAR_SCREEN = "\x1b[2J"
CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
HOSTILE = {
    "escape": CLEAR_SCREEN,
    "clipboard": CLIPBOARD,
    "c1": "\x9b2J",
    "delete": "\x7f",
    "return": "fine\rfaked",
    "backspace": "bad\x08\x08\x08good",
    "bidi": "\u202egnp.exe\u2066",
    "zero width": "ma\u200bin\ufeff",
    "tags": "main\U000e0041",
    "surrogate": "\udc80",
}
OBEYED = set("\x1b\x07\x9b\x7f\r\x08\u202e\u2066\u200b\ufeff\U000e0041\udc80")


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def progress(name: str) -> Progress:
    return Progress.of({"stage": "search", "task_name": name, "failures": {name: 1}})


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_say_escapes_control_characters(text, capsys):
    say(text)
    print_rows(("NAME",), [(text,)], empty="")
    shown = capsys.readouterr().out
    assert not OBEYED & set(shown)
    assert "\\" in shown


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_say_json_escapes_control_characters(text, capsys):
    say_json({"name": text})
    shown = capsys.readouterr().out
    assert not OBEYED & set(shown)
    assert json.loads(shown) == {"name": text}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_progress_escapes_task_names(text):
    lines = FakeTerminal()
    PlainLines(lines).show(progress(text))
    assert not OBEYED & set(lines.getvalue())


def test_live_panel_ignores_escapes_and_markup_in_names():
    terminal = FakeTerminal()
    with LivePanel(terminal) as panel:
        panel.show(progress(CLIPBOARD + "[red]x[/red]"))
        panel.say("[link=http://example.com]click[/link] :warning: " + CLIPBOARD)
    shown = terminal.getvalue()
    assert "\x1b]52" not in shown
    assert "\\x1b]52" in shown
    assert "[red]x[/red]" in shown
    assert "[link=http://example.com]click[/link] :warning:" in shown


def test_table_keeps_name_with_newline_in_one_row(capsys):
    print_rows(("NAME", "STATE"), [("job\nforged  finished", "failed")], empty="")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_event_as_json_has_null_for_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"rate": math.nan, "tasks": [{"latency_s": math.inf}, {"latency_s": -math.inf}], "trials": 3}
    say_json(event_json(Event(sequence=1, job_id="j", kind="summary", at="", data=data)))
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert shown["data"] == {"rate": None, "tasks": [{"latency_s": None}, {"latency_s": None}], "trials": 3}


def test_event_line_is_one_line():
    data = {"state": "finished", "outcome": "failed", "message": f"x\n2026-01-01T00:00:00 state won{CLEAR_SCREEN}"}
    line = event_line(Event(sequence=1, job_id="j", kind="state", at="2026-01-01T00:00:00Z", data=data))
    assert "\n" not in line
    assert not OBEYED & set(line)


@pytest.mark.parametrize(
    "words",
    [
        ["tune", f"builtin:{CLIPBOARD}"],
        ["tune", f"no such file{CLEAR_SCREEN}.json"],
        ["tune", "builtin:matmul", f"--{CLIPBOARD}"],
        ["tune", "builtin:matmul", "--trials", CLIPBOARD],
        [CLIPBOARD],
        ["records", "show", CLIPBOARD],
        ["report", CLIPBOARD],
    ],
)
def test_error_escapes_arguments(words, tmp_path):
    environment = {**os.environ, "TUNEFARM_HOME": str(tmp_path)}
    done = run_command(*words, environment=environment, folder=tmp_path, timeout_s=300)
    assert done.code == 2, done.err
    assert done.err
    assert not {"\x1b", "\x07"} & set(done.out + done.err)


def test_error_escapes_non_utf8_arguments(tmp_path: Path):
    line = [sys.executable, "-m", "tunefarm.cli.command_line", "tune", b"no \xff file \xe2\x80\xae.json"]
    environment = {**os.environ, "TUNEFARM_HOME": str(tmp_path), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(line, capture_output=True, env=environment, timeout=300, check=False)
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"\xff" not in done.stderr


def test_traceback_escapes_error_message():
    program = (
        "import tunefarm.cli.error_reporting as edge, tunefarm.cli.command_line as line, sys\n"
        f"def broken(words): raise RuntimeError({CLIPBOARD!r})\n"
        "line._run = broken\n"
        "sys.exit(line.main(['jobs']))\n"
    )
    parent, child = pty.openpty()
    done = subprocess.run([sys.executable, "-c", program], stdout=child, stderr=child, timeout=300, check=False)
    os.close(child)
    shown = os.read(parent, 1 << 16)
    os.close(parent)
    assert done.returncode == 1
    assert b"RuntimeError" in shown
    assert b"\x1b" not in shown
