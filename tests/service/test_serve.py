"""``tunefarm serve``: API and tuning on this machine, also after a kill."""

import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Final

import httpx
import psutil
import pytest

from tests.quiet_records import as_on_a_quiet_host
from tests.servers.command_server import ROOT, Ended, run_command
from tests.servers.processes import assert_gone
from tests.service.conftest import Service, module_json

HEAP_BYTES: Final = 64 << 20


def processes_of(service: Service) -> list[psutil.Process]:
    assert service.process is not None
    return psutil.Process(service.process.pid).children(recursive=True)


@pytest.mark.faults
def test_job_over_http_from_module_to_library(service: Service) -> None:
    service.start()
    assert stat.S_IMODE((service.home / "token").stat().st_mode) == 0o600
    (job,) = service.finish(service.submit(module_json(24), 3, target="host:1"))
    assert job["outcome"] == "succeeded", job
    trials = service.trials(job["job_id"])
    assert len(trials) == 3
    (record,) = service.get(f"/v1/jobs/{job['job_id']}/records")["items"]
    assert record["status"] == "verified"
    (artifact,) = service.get("/v1/artifacts", record_id=record["record_id"])["items"]
    with service.client() as client:
        library = client.get(f"/v1/artifacts/{artifact['artifact_id']}/library")
    assert library.content.startswith(b"\x7fELF")
    lanes = service.get("/v1/devices")["items"]
    assert len(lanes) == 1
    # The same request again is answered from the store.
    as_on_a_quiet_host(service.home)
    (again,) = service.finish(service.submit(module_json(24), 3, target="host:1"))
    assert (again["outcome"], again["message"]) == ("succeeded", "answered from the store")
    measured = service.post("/v1/jobs", {"kind": "measure", "modules": [{"module": module_json(n)} for n in (32, 48)]})
    (ended,) = service.finish(measured["job_id"])
    assert ended["outcome"] == "succeeded"
    tasks = summary_of(service, measured["job_id"])["tasks"]
    assert all(task["best_latency_s"] > 0 and task["samples_s"] and not task["record_id"] for task in tasks)
    canceled = service.submit(module_json(72), 4000, target="host:1")
    service.wait(lambda: service.trials(canceled))
    service.post(f"/v1/jobs/{canceled}:cancel")
    (ended,) = service.finish(canceled)
    assert ended["outcome"] == "canceled", "its 4000 trials have not all been measured"
    took_s = service.end()
    assert not (service.home / "api.json").exists()
    print(f"ready {service.ready_s:.2f} s, ended {took_s:.2f} s")


@pytest.mark.faults
def test_drained_service_keeps_jobs_waiting_until_resumed(service: Service) -> None:
    service.start()
    service.wait(lambda: service.get("/v1/devices")["items"])
    (device,) = service.get("/v1/devices")["items"]
    service.post(f"/v1/devices/{device['device_id']}:drain", {})
    service.wait(lambda: service.get("/v1/workers")["items"][0]["state"] == "drained")
    job_id = service.submit(module_json(24), 1, target="host:1")
    service.wait(lambda: "drained on request" in (service.get(f"/v1/jobs/{job_id}")["message"] or ""))
    assert service.trials(job_id) == []
    service.post(f"/v1/devices/{device['device_id']}:resume", {})
    (job,) = service.finish(job_id)
    assert job["outcome"] == "succeeded", job


@pytest.mark.faults
def test_service_threads_share_one_heap(service: Service) -> None:
    """With one arena per thread, memory grows by 3 MB in 100,000 requests."""
    service.start()
    with ThreadPoolExecutor(16) as many:
        list(many.map(lambda _: service.get("/v1/jobs"), range(64)))
    assert service.process is not None
    api = psutil.Process(service.process.pid)
    (tuner,) = [child for child in api.children() if "tuner" in child.cmdline()]
    assert api.num_threads() > 2
    service.wait(lambda: tuner.num_threads() > 1)
    for process in (api, tuner):
        assert heaps_of_threads(process) == 0, process.cmdline()


def test_garbage_is_collected_without_requests() -> None:
    program = """
import gc, time, weakref
from tunefarm.server.api_server import collect_now_and_then

class Cycle:
    def __init__(self):
        self.itself = self

gc.disable()
left = weakref.ref(Cycle())
assert left() is not None
collect_now_and_then(every_s=0.05)
while left() is not None:
    time.sleep(0.02)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def heaps_of_threads(process: psutil.Process) -> int:
    """Count glibc's arenas: each is a 64 MiB aligned mapping of 64 MiB whose first part is in use."""
    maps = [line.split() for line in Path(f"/proc/{process.pid}/maps").read_text().splitlines()]
    regions = [(*(int(end, 16) for end in words[0].split("-")), words[1], len(words) > 5) for words in maps]
    return sum(
        used_mode == "rw-p"
        and rest_mode == "---p"
        and not (has_name or rest_has_name)
        and (used_until == rest_begin and begin % HEAP_BYTES == 0 and end - begin == HEAP_BYTES)
        for (begin, used_until, used_mode, has_name), (rest_begin, end, rest_mode, rest_has_name) in pairwise(regions)
    )


def summary_of(service: Service, job_id: str) -> dict:
    events = service.get("/v1/events", job_id=job_id, page_size=500)["items"]
    return [event["data"] for event in events if event["kind"] == "summary"][-1]


@pytest.mark.faults
def test_killed_service_leaves_no_process_and_resumes(service: Service) -> None:
    service.start()
    job_id = service.submit(module_json(96), 12)
    service.wait(lambda: len(service.trials(job_id)) >= 5)
    orphans = processes_of(service)
    service.end(signal.SIGKILL)
    assert_gone(orphans, "a service that was killed")
    service.start()
    before = {trial["number"]: trial for trial in service.trials(job_id) if trial["result"] is not None}
    (job,) = service.finish(job_id)
    assert job["outcome"] == "succeeded", job
    after = {trial["number"]: trial for trial in service.trials(job_id)}
    assert len(after) == 12
    assert all(after[number] == trial for number, trial in before.items())
    service.end()


@pytest.mark.faults
@pytest.mark.timing
def test_pause_and_cancel_take_effect_and_exploration_is_shared(service: Service) -> None:
    service.start()
    first = service.submit(module_json(80), 4000)
    second = service.submit(module_json(80), 12)
    service.wait(lambda: len(service.trials(first)) >= 3)
    pause_s = seconds_until(service, first, "pause", "paused")
    (ended,) = service.finish(second)
    assert ended["outcome"] == "succeeded"
    assert {trial["exploration_id"] for trial in service.trials(first)} == {
        trial["exploration_id"] for trial in service.trials(second)
    }
    service.post(f"/v1/jobs/{first}:resume")
    service.wait(lambda: service.job(first)["state"] == "running", 20.0)
    cancel_s = seconds_until(service, first, "cancel", "finished")
    assert service.job(first)["outcome"] == "canceled"
    assert pause_s < 2.0
    assert cancel_s < 2.0
    service.end()


def seconds_until(service: Service, job_id: str, verb: str, state: str) -> float:
    service.post(f"/v1/jobs/{job_id}:{verb}")
    began_s = time.monotonic()
    service.wait(lambda: service.job(job_id)["state"] == state)
    return time.monotonic() - began_s


def run(service: Service, *words: str) -> Ended:
    return run_command(*words, environment=service.environment, folder=ROOT, timeout_s=120)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "0.0.0.0"), "--tls-certificate"),
        (("--tls-key", "missing.pem"), "--tls-certificate"),
        (("--port", "70000"), "--port"),
    ],
)
@pytest.mark.quick_cases(2)
def test_forbidden_listen_address_is_rejected(service: Service, words: tuple[str, ...], said: str) -> None:
    ended = run(service, "serve", *words)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_token_commands_create_list_and_revoke(service: Service) -> None:
    words = ("--tenant", "friends")
    text = run(service, "token", "create", "a friend", *words, "--scope", "jobs:read").out.strip()
    (made,) = run(service, "token", "list", *words, "--json").json()
    assert (made["token_id"], made["name"], made["scopes"]) == (text.split("_")[1], "a friend", ["jobs:read"])
    assert run(service, "token", "revoke", made["token_id"], *words).code == 0
    listed = run(service, "token", "list", *words)
    assert "revoked" in listed.out
    assert text.split("_", 2)[2] not in listed.out


def test_sharing_commands_join_list_and_leave(service: Service) -> None:
    run(service, "token", "create", "a friend", "--tenant", "alice")
    assert "no other tenant yet" in run(service, "sharing", "join", "team", "alice").out
    assert "bob shares trials and records with alice" in run(service, "sharing", "join", "team", "bob").out
    assert run(service, "sharing", "list", "--json").json() == {"team": ["alice", "bob"]}
    refused = run(service, "sharing", "join", "other", "bob")
    assert (refused.code, "bob is in the group team" in refused.err) == (2, True)
    assert run(service, "sharing", "leave", "bob").code == 0
    assert run(service, "sharing", "leave", "bob").code == 2
    assert run(service, "sharing", "list").out.split() == ["group", "tenants", "team", "alice"]


@pytest.mark.extended
def test_service_accepts_token_until_it_is_revoked(service: Service) -> None:
    service.words = ("serve", "--port", "0", "--no-tuner")
    service.start()
    made = run(service, "token", "create", "a friend", "--tenant", "friends", "--scope", "jobs:read")
    text = made.out.strip()
    with service.client() as client:
        headers = {"Authorization": f"Bearer {text}"}
        assert client.get("/v1/jobs", headers=headers).json()["items"] == []
        assert client.post("/v1/jobs", headers=headers, json={}).status_code == 403
        listed = run(service, "token", "list", "--tenant", "friends")
        assert "a friend" in listed.out
        assert text.split("_", 2)[2] not in listed.out
        token_id = text.split("_")[1]
        assert run(service, "token", "revoke", token_id, "--tenant", "friends").code == 0
        # A valid token is cached for TUNEFARM_TOKEN_TRUST_S.
        service.wait(lambda: client.get("/v1/jobs", headers=headers).status_code == 401)
    with httpx.Client() as stranger:
        assert stranger.get(f"{client.base_url}/v1/jobs").status_code == 401
    service.end()
