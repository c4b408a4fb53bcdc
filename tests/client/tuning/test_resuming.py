"""``--resume``: the selection of the job."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.sample import put_job
from tunefarm.local.machine import LocalMachine
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

MATMUL, SOFTMAX = "builtin:matmul:64x64x64", "builtin:softmax:8x16"


@pytest.fixture
def machine(home: Path) -> Iterator[LocalMachine]:
    with LocalMachine(Settings(home=home)) as opened:
        yield opened


def test_resume_accepts_own_module_or_none(machine: LocalMachine) -> None:
    job = put_job(machine.store, module=MATMUL)
    put_job(machine.store, module=SOFTMAX)
    assert machine.unfinished_job(job.job_id, {}) == job
    assert machine.unfinished_job(job.job_id, {"module": MATMUL}) == job
    assert machine.unfinished_job(None, {"module": MATMUL}) == job


@pytest.mark.parametrize("labels", [{"module": MATMUL}, {}])
def test_resume_rejects_job_of_another_module(machine: LocalMachine, labels: dict[str, str]) -> None:
    job = put_job(machine.store, **labels)
    with pytest.raises(BadInput, match=f"job {job.job_id} tunes") as refused:
        machine.unfinished_job(job.job_id, {"module": SOFTMAX})
    assert refused.value.field == "resume"
    assert SOFTMAX in refused.value.problem
    assert labels.get("module", "an unnamed module") in refused.value.problem


def test_resume_error_names_both_modules(machine: LocalMachine, tunefarm: Callable[..., Any]) -> None:
    job = put_job(machine.store, module=MATMUL)
    ended = tunefarm("tune", SOFTMAX, "--resume", job.job_id)
    assert ended.code == 2, ended.err
    assert all(words in ended.err for words in ("--resume", job.job_id, MATMUL, SOFTMAX))
    assert ended.out == ""
