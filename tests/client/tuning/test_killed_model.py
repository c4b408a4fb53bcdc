"""The job of a model that is interrupted or killed at any stage: it goes on, and leaves nothing half."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S
from tests.client.tuning.test_stopping import read_until, start_tune
from tests.servers.command_server import Ended
from tunefarm.model.loaded_model import load_model

MODEL = """
import numpy as np
import tvm
from tvm import relax

rng = np.random.default_rng(0)
builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorType((1, 64), "float32"))
with builder.function("main", [x], attrs={"num_input": 1}):
    with builder.dataflow():
        given = x
        for shape in ((64, 48), (48, 32)):
            weight = relax.const(rng.standard_normal(shape).astype("float32"))
            given = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(given, weight))))
        result = builder.emit_output(given)
    builder.emit_func_output(result)
model = builder.get()
"""


@pytest.mark.faults
@pytest.mark.parametrize("stage", ["searching", "verifying", "model: prepare", "model: verify", "model: time"])
def test_same_command_goes_on_after_a_kill(tunefarm: Callable[..., Ended], tmp_path: Path, stage: str) -> None:
    source, output = tmp_path / "net.py", tmp_path / "output"
    source.write_text(MODEL)
    words = (f"{source}:model", "--target", "host:1", "--trials", "6", "--json", "--output", str(output))
    with start_tune(tmp_path / "home", *words) as process:
        read_until(process, stage)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(HANG_S)
    assert not (output / "manifest.json").exists(), "files of a model appear when all are complete"
    again = tunefarm("tune", *words)
    assert again.code == 0, again.err
    summary = json.loads(again.out)
    assert (summary["outcome"], len(summary["tasks"])) == ("succeeded", 2)
    assert all(task["record_id"] for task in summary["tasks"])
    if stage not in {"searching", "verifying"}:
        assert [task["trials"] for task in summary["tasks"]] == [0, 0]
    names = {path.name for path in output.iterdir() if not path.name.startswith(".compiling-")}
    assert names == {"kernels.so", "manifest.json", "program.vm", "report.html", "weights.safetensors"}
    assert load_model(output).entries == ("main",)
    reported = tunefarm("report", "--json")
    assert json.loads(reported.out)["built"] == summary["model"], "the report of a job has the times of its model"


def start_model(tmp_path: Path, *words: str) -> "subprocess.Popen[str]":
    source = tmp_path / "net.py"
    source.write_text(MODEL)
    return start_tune(tmp_path / "home", f"{source}:model", "--target", "host:1", "--trials", "100000", *words)


@pytest.mark.faults
def test_ctrl_c_builds_the_model_of_the_best_so_far(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with start_model(tmp_path, "--json", "--output", str(output)) as process:
        read_until(process, r"best=\d")
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, said
    summary = json.loads(printed)
    assert summary["outcome"] == "succeeded"
    assert summary["message"].startswith("finished on request")
    assert any(task["record_id"] for task in summary["tasks"])
    model = load_model(output)
    assert model.manifest.verified is not None, "the model was not compared with the unscheduled one"
    assert model.entries == ("main",)


@pytest.mark.faults
def test_second_ctrl_c_pauses_the_job_of_a_model_which_resumes(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with start_model(tmp_path, "--output", str(output)) as process:
        read_until(process, r"best=\d")
        process.send_signal(signal.SIGINT)
        read_until(process, "ending the search")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, said
    assert not (output / "manifest.json").exists()
    (job,) = {line.split()[-1] for line in said.splitlines() if "--resume" in line}
    with start_tune(tmp_path / "home", "--resume", job, "--json", "--output", str(output)) as resumed:
        read_until(resumed, r"best=\d")
        resumed.send_signal(signal.SIGINT)
        printed, said = resumed.communicate(timeout=HANG_S)
    assert resumed.returncode == 0, said
    summary = json.loads(printed)
    assert (summary["job_id"], summary["outcome"]) == (job, "succeeded")
    assert sum(task["trials_in_store"] for task in summary["tasks"]) > 0
    assert load_model(output).entries == ("main",)
