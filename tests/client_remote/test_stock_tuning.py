"""TVM's tuner with ``FarmBuilder`` and ``FarmRunner``."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import HANG_S
from tests.client_remote.conftest import ROOT, Service
from tunefarm import Client
from tunefarm_sandbox.confinement.abilities import abilities


@pytest.fixture(scope="module")
def stock() -> Any:
    """TVM's classes, imported on demand."""
    from tvm.s_tir import meta_schedule

    return meta_schedule


@pytest.mark.faults
def test_tvm_tunes_on_farm_and_deletes_only_tickets(service: Service, tmp_path: Path) -> None:
    if not abilities().landlock_abi:
        pytest.skip("this kernel cannot confine a process to a folder")
    folder = tmp_path / "only here"
    folder.mkdir()
    (folder / "another file").write_text("keep")
    (tmp_path / "outside").write_text("keep")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.client_remote.stock_tuning", str(folder), service.url, service.home / "token"],
        env={**os.environ, "TMPDIR": str(folder), "HOME": str(folder)},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    result = json.loads(ended.stdout.splitlines()[-1])
    assert len(result["latencies_s"]) >= 4
    assert all(0 < latency_s < 1 for latency_s in result["latencies_s"])
    assert not [name for name in result["left"] if name.startswith("tunefarm-ticket-")]
    assert (folder / "another file").read_text() == "keep"
    assert (tmp_path / "outside").read_text() == "keep"
    with Client(service.url, service.token) as client:
        jobs = client.jobs.list(labels={"source": "FarmRunner"})
        assert [(job.view.spec.kind, job.outcome) for job in jobs] == [("measure", "succeeded")]
        assert jobs[0].records() == []


def test_runner_rejects_foreign_artifact_paths(service: Service, stock: Any, tmp_path: Path) -> None:
    from tunefarm import FarmRunner

    library = tmp_path / "lib.so"
    library.write_bytes(b"not a library")
    [future] = FarmRunner(service.url, service.token).run([stock.runner.RunnerInput(str(library), "cpu", [])])
    assert future.done()
    assert "FarmBuilder" in future.result().error_msg
    assert library.exists()


def test_builder_reports_unsupported_modules(stock: Any) -> None:
    import tvm

    from tunefarm import FarmBuilder

    target = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    [result] = FarmBuilder().build([stock.builder.BuilderInput(tvm.IRModule(), target)])
    assert result.artifact_path is None
    assert "no functions" in result.error_msg
