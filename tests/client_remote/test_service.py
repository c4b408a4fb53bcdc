"""The client and its commands with a running service, from a program to a library."""

import asyncio
import json
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S
from tests.client_remote.conftest import ROOT, Service, tunefarm
from tests.servers.tuned_home import TUNED
from tunefarm import ApiError, AsyncClient, Client
from tunefarm.remote.remote_job import RemoteJob
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.record import RecordStatus

PROGRAMS = ROOT / "tests" / "client" / "programs"
MODULE = TUNED[0]
MATMUL = f"{PROGRAMS / 'matmul.py'}:Module"
TRIALS = "2"
HOST = "host:1"
ONE_CORE = ("--target", HOST)
SERVE_A_TEAM = "## Serve a team"
FENCE = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def guide_commands() -> list[str]:
    """The commands of the guide's section, except the one that starts the service."""
    section = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8").split(SERVE_A_TEAM)[1].split("\n## ")[0]
    lines = [line for block in FENCE.findall(section) for line in block.splitlines() if line.startswith("tunefarm")]
    assert lines[0] == "tunefarm serve"
    return lines[1:5]


def test_guide_section_leads_from_service_to_library(service: Service, tmp_path: Path) -> None:
    record_id = ""
    for line in guide_commands():
        words = shlex.split(line.replace("RECORD", record_id))[1:]
        if "--trials" in words:
            words[words.index("--trials") + 1] = TRIALS
        if words[0] == "submit" or words[:2] == ["records", "best"]:
            words += ONE_CORE
        ended = service.command(*words, folder=tmp_path)
        assert ended.code == 0, (line, ended.out, ended.err)
        if words[:2] == ["records", "best"]:
            record_id = ended.out.splitlines()[1].split()[1]
    assert list((tmp_path / "tuned").glob("*.so"))
    assert "correct" in ended.out


def test_service_writes_the_code_of_a_record(service: Service) -> None:
    record = service.command("records", "list", "--status", "verified", "--remote", "--json").json()[0]
    for form, line in (("python", "def apply_trace("), ("lowered", "__tvm_ffi_main"), ("assembly", "__tvm_ffi_main:")):
        shown = service.command("records", "show", record["record_id"][:12], "--remote", "--form", form)
        assert shown.code == 0, shown.err
        assert line in shown.out
    shown = service.command("records", "show", record["record_id"], "--remote", "--json").json()
    assert (shown["record"], shown["field"]["releases"]) == (record, [])
    with Client(service.url, token=service.token) as client:
        assert client.records.code(record["record_id"], "scheduled").text == shown["code"]["scheduled"]["text"]
        assert client.records.field(record["record_id"][:12]).latency_s == record["latency_s"]


@pytest.fixture(scope="module")
def tuned(service: Service) -> str:
    """Id of a successful job with a user's space and seed trace."""
    programs = PROGRAMS / "matmul.py"
    options = ("--space", f"{programs}:stochastic_schedule", "--seed-trace", f"{programs}:schedule_by_hand")
    options += ("--trials", TRIALS, *ONE_CORE, "--label", "team=a", "--wait", "--json")
    ended = service.command("submit", MATMUL, *options)
    value = ended.json()
    assert value["job"]["outcome"] == "succeeded"
    assert value["summary"]["tasks"][0]["record_id"]
    return str(value["job"]["job_id"])


def test_job_is_listed_and_shown_with_events(service: Service, tuned: str) -> None:
    listed = service.command("jobs", "list", "--json").json()
    assert tuned in {job["job_id"] for job in listed}
    labelled = service.command("jobs", "list", "--label", "team=a", "--label", f"module={MATMUL}", "--json").json()
    assert [job["job_id"] for job in labelled] == [tuned]
    assert service.command("jobs", "list", "--label", "team=a", "--label", "team2=b").out.strip() == "no jobs"
    shown = service.command("jobs", "show", tuned)
    assert "tuned" in shown.out, shown.err
    lines = service.command("logs", tuned, "--json").out.splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["sequence"] for event in events] == sorted(event["sequence"] for event in events)
    assert events[-1]["kind"] == "summary"
    assert service.command("watch", tuned).code == 0


def test_space_of_a_task_is_shown_as_text_and_json(service: Service, tuned: str) -> None:
    space = service.command("jobs", "space", tuned, "--json").json()
    assert space["sampled"] == len(space["fastest"]) > 0
    text = service.command("jobs", "space", tuned).out
    assert "Share of the variance of log latency" in text
    assert f"Sketch 0: {space['sketches'][0]['trials']} sampled trial" in text
    assert service.command("jobs", "space", tuned, "--task", "1").code == 2


def test_job_provides_record_and_library(service: Service, tuned: str, tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        job = client.jobs.get(tuned)
        assert job.wait(progress=False).is_finished
        [record] = job.records()
        assert record.status is RecordStatus.VERIFIED
        built = job.artifact()
        assert built.manifest.record_id == record.record_id
        assert built.write(tmp_path).read_bytes() == built.library
        matches = client.records.best(built.module_json, target="host:1")
        assert [match.match.value for match in matches][:1] == ["exact"]
        assert tuned in {each.job_id for each in client.jobs.list(labels={"team": "a"})}


def test_device_class_may_be_abbreviated(service: Service, tuned: str) -> None:
    [device] = service.command("devices", "list", "--json").json()
    own = ("--device-class", device["device_class_id"][:12], "--remote", "--json")
    assert service.command("records", "best", MATMUL, *ONE_CORE, *own).json()[0]["match"] == "exact"
    submitted = service.command("submit", MATMUL, *ONE_CORE, *own[:2], "--trials", "1", "--json").json()
    assert submitted["spec"]["device_class_id"] == device["device_class_id"]


def test_job_uses_sketches_and_seed_trace(service: Service, tuned: str) -> None:
    with Client(service.url, service.token) as client:
        job = client.jobs.get(tuned)
        trials = job.trials()
        assert "seed" in {trial.origin for trial in trials}
        assert all("SamplePerfectTile" in trial.trace.text for trial in trials if trial.origin != "seed")
        timed = [trial for trial in trials if trial.latency_s is not None]
        [record] = job.records()
        # The seed trace, a sampled schedule or the untuned function may be the fastest.
        assert record.trace.text in {"[[],[]]"} | {trial.trace.text for trial in timed}


@pytest.mark.faults
def test_job_is_paused_resumed_and_canceled(service: Service) -> None:
    with Client(service.url, service.token) as client:
        job = client.tune(MODULE, target=HOST, trials=100_000, fresh=True, labels={"kind": "long"})
        assert service.command("pause", job.job_id).code == 0
        assert service.command("resume", job.job_id).code == 0
        assert service.command("cancel", job.job_id).code == 0
        assert job.wait(progress=False).outcome == "canceled"
        delete_when_released(client, job.job_id)
        with pytest.raises(ApiError) as gone:
            client.jobs.get(job.job_id)
    assert gone.value.status == 404


@pytest.mark.faults
def test_finished_job_builds_best_so_far(service: Service, tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        job = client.tune(MODULE, target=HOST, trials=100_000, fresh=True)
        wait_measured(job)
        ended = service.command("finish", job.job_id)
        assert ended.code == 0, ended.err
        assert f"requested finish of job {job.job_id}; it is running" in ended.out
        assert job.wait(progress=False).message == "finished on request"
        assert job.outcome == "succeeded"
        assert [task["stop_reason"] for task in job.summary["tasks"]] == ["requested"]
        assert job.artifact().write(tmp_path).exists()
        assert "requested request=finish" in service.command("logs", job.job_id).out
        with pytest.raises(ApiError) as over:
            job.finish()
        assert over.value.status == 409
        again = service.command("finish", job.job_id)
        assert (again.code, "has finished (succeeded)" in again.err) == (2, True)


@pytest.mark.faults
def test_paused_job_finishes_without_new_trials(service: Service) -> None:
    with Client(service.url, service.token) as client:
        job = client.tune(MODULE, target=HOST, trials=100_000, fresh=True)
        wait_measured(job)
        job.pause()
        wait_until(lambda: job.refresh().state == "paused")
        spent = len(job.trials())

        async def finish() -> None:
            async with AsyncClient(service.url, service.token) as asking:
                asked = await (await asking.jobs.get(job.job_id)).finish()
                assert asked.state in {"queued", "running"}
                assert (await asking.jobs.finish(job.job_id)).job_id == job.job_id

        asyncio.run(finish())
        assert job.wait(progress=False).outcome == "succeeded"
        assert len(job.trials()) == spent


@pytest.mark.faults
def test_job_prefix_is_accepted_by_commands_and_clients(service: Service) -> None:
    with Client(service.url, service.token) as client:
        job, other = (client.tune(MODULE, device_class_id="nowhere", deadline_s=600, trials=1) for _ in range(2))
        others = {each.job_id for each in client.jobs.list(limit=None)} - {job.job_id}
        short = shortest(job.job_id, others)
        for command in ("pause", "resume", "finish", "cancel"):
            assert f"requested {command} of job {job.job_id}" in service.command(command, short).out
        assert job.job_id in service.command("jobs", "show", short).out
        assert "canceled on request" in service.command("logs", short).out
        assert service.command("watch", short).code == 3
        assert client.jobs.get(short).job_id == client.jobs.cancel(short).job_id == job.job_id

        async def get() -> str:
            async with AsyncClient(service.url, service.token) as asking:
                return (await asking.jobs.get(short)).job_id

        assert asyncio.run(get()) == job.job_id
        with pytest.raises(BadInput, match="several jobs begin with") as several:
            client.jobs.get(job.job_id[:1])  # ids begin with the creation time
        assert any(job_id in several.value.problem for job_id in {job.job_id, *others})
        client.jobs.cancel(other.job_id)
        assert service.command("jobs", "delete", short, "--json").json()["job_id"] == job.job_id
        for unknown in (job.job_id, short, "no-such-job"):
            with pytest.raises(ApiError) as gone:
                client.jobs.get(unknown)
            assert gone.value.status == 404
        with pytest.raises(BadInput, match="empty"):
            client.jobs.get("")


def shortest(whole: str, others: set[str]) -> str:
    """The shortest unique prefix of an id."""
    return next(
        whole[:length] for length in range(1, len(whole)) if not any(each.startswith(whole[:length]) for each in others)
    )


def wait_measured(job: RemoteJob) -> None:
    wait_until(lambda: any(trial.latency_s is not None for trial in job.trials()))


def wait_until(condition: Callable[[], object]) -> None:
    until_s = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def delete_when_released(client: Client, job_id: str) -> None:
    """Wait until the tuner has released the job, a moment after its end."""
    until_s = time.monotonic() + 60
    while True:
        try:
            client.jobs.delete(job_id)
        except ApiError as refused:
            if refused.status != 409 or time.monotonic() > until_s:
                raise
            time.sleep(0.05)
        else:
            return


def test_job_is_extended_cloned_and_compared(service: Service, tuned: str) -> None:
    extended = service.command("jobs", "extend", tuned[:12], "--trials", "1", "--json").json()
    assert extended["spec"]["effort"]["trials"] > int(TRIALS)
    asked = ("--strategy", "random", "--seed", "3", "--label", "try=2", "--trials", TRIALS)
    cloned = service.command("jobs", "clone", tuned, *asked)
    job_id = cloned.out.strip()
    assert f"next: tunefarm watch {job_id}" in cloned.err
    compared = service.command("jobs", "compare", tuned, job_id)
    assert re.search(r"strategy +evolutionary +random", compared.out)
    found = service.command("jobs", "compare", tuned, job_id, "--json").json()
    assert found["tasks"][0]["first"]["record_id"]
    assert service.command("jobs", "compare", tuned, "0123").code == 2
    for made in (extended["job_id"], job_id):
        service.command("cancel", made)


def test_preset_of_service_is_accepted_as_target(service: Service) -> None:
    with Client(service.url, service.token) as client:
        job = client.tune(MODULE, target="raspberry-pi-4", device_class_id="nowhere", deadline_s=600, trials=1)
        target = client.targets.get(job.view.spec.tasks[0].target_id)
        assert target.attributes()["mcpu"] == "cortex-a72"
        assert job.cancel().job_id == job.job_id
    unknown = service.command("submit", MODULE, "--target", "raspberry-pi-9")
    assert unknown.code == 2, unknown.err
    assert all(words in unknown.err for words in ("--target", "'raspberry-pi-9' is not a preset", "raspberry-pi-4"))


def test_devices_usage_and_tokens_are_listed(service: Service, tuned: str) -> None:
    [device] = service.command("devices", "list", "--json").json()
    assert device["kind"] == "cpu"
    assert service.command("devices", "show", device["device_id"]).code == 0
    assert sum(day["trials"] for day in service.command("usage", "--json").json()) >= int(TRIALS)
    assert "local" in service.command("usage", "--all-tenants").out
    (lane,) = service.command("devices", "show", device["device_id"], "--json").json()["workers"]
    for verb in ("quarantine", "resume"):
        asked = service.command("devices", verb, device["device_id"], "--lane", lane["worker_id"])
        assert f"requested {verb} of lane {lane['worker_id']}" in asked.out
    assert service.command("devices", "drain", "0123", "--lane", lane["worker_id"]).code == 2
    history = service.command("devices", "history", device["device_id"], "--json").json()
    assert {"ready", "quarantine", "resume"} <= {change["value"] for change in history["changes"]}
    assert "calibrated" in service.command("devices", "history", device["device_id"]).out
    (tenant,) = service.command("overview", "--json").json()["tenants"]
    assert tenant["tenant"] == "local"
    assert "lanes: " in service.command("overview", "--all-tenants").out

    async def tokens() -> None:
        async with AsyncClient(service.url, service.token) as client:
            made = await client.tokens.create("ci", ["jobs:read"])
            async with AsyncClient(service.url, made.text) as reader:
                assert (await reader.jobs.get(tuned)).job_id == tuned
                with pytest.raises(ApiError) as refused:
                    await reader.tokens.list()
                assert refused.value.status == 403
            await client.tokens.revoke(made.token.token_id)

    asyncio.run(tokens())


def test_large_module_is_uploaded(service: Service, tuned: str, tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        workload_id = client.jobs.get(tuned).view.spec.tasks[0].workload_id
        large = tmp_path / "large.json"
        large.write_text(client.workloads.module(workload_id) + " " * (2 << 20))
        job = client.tune(str(large), trials=int(TRIALS))
        assert job.view.spec.tasks[0].workload_id == workload_id
        assert job.cancel().job_id == job.job_id


def test_rejected_request_exits_with_2(service: Service, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"root_index": 0, "nodes": []}')
    ended = service.command("submit", str(bad))
    assert ended.code == 2
    assert "MODULE" in ended.err
    assert "Traceback" not in ended.err
    ended = service.command("jobs", "show", "nosuchjob")
    assert ended.code == 2, ended.err


def test_unreachable_service_exits_with_4(service: Service, tmp_path: Path) -> None:
    environment = {**service.environment, "TUNEFARM_API_PATIENCE_S": "0.2"}
    ended = tunefarm("jobs", "list", "--api", "http://127.0.0.1:9", environment=environment, folder=tmp_path)
    assert ended.code == 4, (ended.out, ended.err)
