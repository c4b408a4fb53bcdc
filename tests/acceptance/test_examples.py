"""Runs every command and program of the guide and the README in order, with the files that they show.

The documents show no output: each command must exit with 0 and report no failure.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.command import HANG_S, INSTALLED
from tests.acceptance.examples import Example, examples_of
from tests.house.test_dangers import DELETES_WHAT_A_BUILDER_NAMES
from tests.servers.processes import environment_without_settings

GUIDE, README = "docs/guide.md", "README.md"
SERVED: Final = "Serve a team"
MODELS: Final = "Whole models"
"""The section that needs torch."""

NOT_RUN: Final[Mapping[str, str]] = {
    r"make .*": "builds, or runs the tests themselves; .ci/run types them",
    r"tunefarm serve( .*)?": "runs until it is stopped: the test starts it for the commands below it",
    r"export TUNEFARM_(API_URL|API_TOKEN)=.*": "names another host",
    r"export TUNEFARM_(DATABASE|BROKER)_URL=.*": "needs PostgreSQL and Redis: tests/service/test_guide_on_a_farm.py",
    r"tunefarm worker start": "needs Redis: tests/service/test_guide_on_a_farm.py",
}
"""Patterns of commands that cannot run here, each with the reason."""

STOCK_TUNING: Final = re.compile(rf"meta_schedule|FarmBuilder|FarmRunner|{DELETES_WHAT_A_BUILDER_NAMES.pattern}")
"""TVM's default callbacks delete folders: tests/client_remote/stock_tuning.py runs them confined."""

SUBSTITUTIONS: Final = (
    (re.compile(r"(--trials |trials=)\d+"), r"\g<1>2"),
    (re.compile(r"^(tunefarm (?:tune|submit) (?!.*--trials).*)$"), r"\1 --trials 2"),
)
"""Replacements that shorten commands. Placeholders for ids are filled from the output of earlier commands."""

FINISHED_JOB: Final = re.compile(r"tunefarm (watch|logs) ")
"""Verbs that wait for the end of a job need a finished one. The others need a job that waits for a device."""


def reason_not_to_run(example: Example) -> str | None:
    if STOCK_TUNING.search(example.text):
        return "removes folders"
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, example.name)), None)


@dataclass
class Reader:
    """Runs the examples of a document, in one folder and with one store."""

    folder: Path
    home: Path
    ids: dict[str, str] = field(default_factory=dict)
    """What the document calls RECORD, JOB and OTHER."""

    @property
    def environment(self) -> dict[str, str]:
        kept = environment_without_settings()
        path = f"{INSTALLED.parent}{os.pathsep}{kept['PATH']}"
        return {**kept, "TUNEFARM_HOME": str(self.home), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def follow(self, example: Example) -> None:
        """Run an example, which must succeed."""
        if example.kind == "file":
            example.put(self.folder)
        elif reason_not_to_run(example) is None:
            text = example.text
            for pattern, replacement in SUBSTITUTIONS:
                text = pattern.sub(replacement, text)
            if example.kind == "program":
                program = Example(example.document, example.section, "program", text).put(self.folder)
                self._run(sys.executable, str(program))
            else:
                self._type(text)

    def said(self, *words: str) -> str:
        """The output of a ``tunefarm`` command."""
        return self._run("tunefarm", *words)

    def _type(self, line: str) -> None:
        if "RECORD" in line:
            line = line.replace("RECORD", self.ids["RECORD"])
        if re.search(r"\bJOB\b", line):
            which = "JOB that ended" if FINISHED_JOB.match(line) else "JOB that waits"
            line = re.sub(r"\bJOB\b", self.ids[which], line).replace("OTHER", self.ids["JOB that ended"])
        out = self._run("bash", "-c", line)
        match = re.search(r"^(?:exact +)?([0-9a-f]{32}) ", out, re.MULTILINE)
        if match is not None:
            self.ids["RECORD"] = match[1]

    def _run(self, *words: str) -> str:
        ended = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
        assert "Traceback" not in ended.stderr, (words, ended.stderr)
        return ended.stdout


@contextmanager
def serving(reader: Reader) -> Iterator[None]:
    """``tunefarm serve`` with the reader's TUNEFARM_HOME on a free port, for the duration of the block."""
    log_path = reader.folder / "serve.log"
    with log_path.open("w") as log:
        words = [str(INSTALLED), "serve", "--port", "0"]
        process = subprocess.Popen(
            words, env=reader.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until_s = time.monotonic() + HANG_S
        while not (reader.home / "api.json").exists():
            assert process.poll() is None, log_path.read_text()
            assert time.monotonic() < until_s, log_path.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def put_files(reader: Reader) -> None:
    for example in examples_of(GUIDE):
        if example.kind == "file":
            reader.follow(example)


def reader_in(folder: Path) -> Reader:
    reader = Reader(folder / "work", folder / "home")
    reader.folder.mkdir()
    put_files(reader)
    return reader


def test_exceptions_match_the_documents() -> None:
    examples = [*examples_of(GUIDE), *examples_of(README)]
    assert SERVED in {example.section for example in examples}
    assert sum(STOCK_TUNING.search(example.text) is not None for example in examples) == 1
    for pattern in NOT_RUN:
        assert any(re.fullmatch(pattern, example.name) for example in examples), pattern
    for pattern, _ in SUBSTITUTIONS:
        assert any(pattern.search(example.text) for example in examples), pattern


@pytest.mark.faults
def test_guide_examples_without_service(tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    for example in examples_of(GUIDE):
        if example.section != SERVED:
            reader.follow(example)
    assert (reader.folder / "report.html").stat().st_size > 0


@pytest.mark.faults
def test_guide_with_service(tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    with serving(reader):
        submitted = ("submit", "builtin:matmul:32x32x32", "--trials", "2", "--label", "team=vision", "--json")
        reader.ids["JOB that ended"] = json.loads(reader.said(*submitted, "--wait"))["job"]["job_id"]
        waiting = json.loads(reader.said(*submitted, "--device-class", "nowhere", "--deadline", "3600"))
        reader.ids["JOB that waits"] = waiting["job_id"]
        for example in examples_of(GUIDE):
            if example.section == SERVED:
                reader.follow(example)
    assert list((reader.folder / "tuned").glob("*.so"))


@pytest.mark.models
def test_readme_commands_for_models(tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    for example in examples_of(README):
        if example.section == MODELS:
            reader.follow(example)
    assert (reader.folder / "tuned-net").is_dir()


@pytest.mark.faults
def test_readme_commands(tmp_path: Path) -> None:
    reader = reader_in(tmp_path)
    # tests/packaging installs the wheels, into environments of their own.
    examples = [each for each in examples_of(README) if each.section not in {"Install it elsewhere", MODELS}]
    alone = [example for example in examples if not example.section.startswith("For a team")]
    for example in alone:
        reader.follow(example)
    shutil.rmtree(reader.home)
    with serving(reader):
        for example in examples:
            if example not in alone:
                reader.follow(example)
