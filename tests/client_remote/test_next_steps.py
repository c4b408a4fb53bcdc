"""The next steps that service commands print lead from a program to its library."""

import shlex
from pathlib import Path

import pytest

from tests.client_remote.conftest import Service


@pytest.mark.faults
def test_job_commands_print_next_step(service: Service, tmp_path: Path) -> None:
    words = ["submit", "builtin:matmul:16x16x16", "--target", "host:1", "--trials", "2"]
    took = []
    for _ in range(4):
        ended = service.command(*words, folder=tmp_path)
        assert ended.code == 0, (words, ended.err)
        *_, last = ended.err.splitlines()
        assert last.startswith("next: "), ended.err
        took.append(words[:2])
        words = shlex.split(last.removeprefix("next: "))[1:]
    assert [each[0] for each in took] == ["submit", "watch", "artifact", "artifact"]
    job_id = took[1][1]
    assert "next: tunefarm artifact build" in service.command("jobs", "show", job_id).err
    best = service.command("records", "best", "builtin:matmul:40x40x40", "--remote")
    assert best.err.splitlines()[-1] == "next: tunefarm submit builtin:matmul:40x40x40 --wait"
