"""Ids of this machine's jobs and records may be abbreviated."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.sample import TENANT, put_job, record
from tunefarm.local.machine import LocalMachine
from tunefarm.records.local_records import named_record
from tunefarm.report.job_queries import named_job
from tunefarm.report.job_report import latest_job
from tunefarm.terminal.named_id import ASKED_FOR
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.settings import Settings

MODULE = "builtin:matmul:64x64x64"


@pytest.fixture
def machine(home: Path) -> Iterator[LocalMachine]:
    with LocalMachine(Settings(home=home)) as opened:
        yield opened


def common(first: str, second: str) -> str:
    length = next(number for number, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1])
    return first[:length]


def test_job_is_found_by_unique_prefix(machine: LocalMachine) -> None:
    first, second = put_job(machine.store, module=MODULE), put_job(machine.store, module=MODULE)
    alike = common(first.job_id, second.job_id)
    for job in (first, second):
        short = job.job_id[: len(alike) + 1]
        assert named_job(machine.store.jobs, short) == job
        assert machine.unfinished_job(short, {}) == job
        assert latest_job(machine.store.jobs, short) == job
        assert named_job(machine.store.jobs, job.job_id) == job


def test_ambiguous_job_prefix_lists_the_jobs(machine: LocalMachine) -> None:
    jobs = [put_job(machine.store).job_id for _ in range(2)]
    with pytest.raises(BadInput, match=f"several jobs begin with '{common(*jobs)}'") as refused:
        machine.unfinished_job(common(*jobs), {})
    assert refused.value.field == "resume"
    assert all(job_id in refused.value.problem for job_id in jobs)
    more = [put_job(machine.store).job_id for _ in range(ASKED_FOR)]
    with pytest.raises(BadInput, match="and others"):
        named_job(machine.store.jobs, common(jobs[0], more[-1]))


@pytest.mark.parametrize("text", ["", "ffffff", "%", "_", "no job"])
def test_unknown_job_prefix_is_rejected(machine: LocalMachine, text: str) -> None:
    put_job(machine.store)
    with pytest.raises(BadInput, match="there is no job"):
        named_job(machine.store.jobs, text)
    with pytest.raises(BadInput, match="there is no record"):
        named_record(machine.store.records, text)


def test_ambiguous_record_prefix_lists_the_records(machine: LocalMachine) -> None:
    put_job(machine.store)
    for record_id in ("ab1", "ab2", "ac"):
        machine.store.records.put(TENANT, None, record(record_id, 1e-3))
    assert named_record(machine.store.records, "ac").record_id == "ac"
    assert named_record(machine.store.records, "ab1").record_id == "ab1"
    with pytest.raises(BadInput, match="several records begin with 'a': ab1, ab2, ac"):
        named_record(machine.store.records, "a")


def test_commands_accept_job_prefix(machine: LocalMachine, tunefarm: Callable[..., Any]) -> None:
    job_id = put_job(machine.store, module=MODULE).job_id
    refused = tunefarm("tune", "builtin:softmax:8x16", "--resume", job_id[:8])
    assert (refused.code, job_id in refused.err) == (2, True)
    unknown = tunefarm("report", "ffff")
    assert (unknown.code, "JOB: there is no job 'ffff'" in unknown.err) == (2, True)
