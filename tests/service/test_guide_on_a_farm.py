"""The guide's commands with PostgreSQL, Redis and two workers."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.farm.workers import Worker, await_ready
from tests.servers.command_server import ROOT, run_command
from tests.servers.postgres_server import empty_database
from tests.servers.redis_server import RedisServer
from tests.service.conftest import Service, environment_of
from tunefarm_services.store import Store

PROGRAM = ("builtin:matmul_bias_relu:64x64x64", "--target", "host:1")


def tunefarm(environment: dict[str, str], *words: str) -> str:
    """The output of a command."""
    ended = run_command(*words, environment=environment, folder=ROOT, timeout_s=300)
    assert ended.code == 0, (words, ended.out, ended.err)
    return ended.out


@pytest.mark.faults
def test_guide_commands_with_two_workers(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with ExitStack() as parts:
        database_url = parts.enter_context(empty_database("guide"))
        broker = parts.enter_context(RedisServer())
        environment = environment_of(home, TUNEFARM_DATABASE_URL=database_url, TUNEFARM_BROKER_URL=broker.url)
        service = Service(home, environment, ("serve", "--port", "0"))
        service.start()
        parts.callback(service.end)
        workers = [parts.enter_context(Worker(broker.url, home, f"worker {number}")) for number in range(2)]
        store = Store.open(database_url, home / "blobs")
        parts.callback(store.close)
        await_ready(store, *workers)
        tunefarm(environment, "submit", *PROGRAM, "--trials", "2", "--wait")
        (best, *_) = json.loads(tunefarm(environment, "records", "best", *PROGRAM, "--remote", "--json"))
        assert (best["match"], best["record"]["status"]) == ("exact", "verified")
        folder = str(tmp_path / "tuned")
        tunefarm(environment, "artifact", "build", best["record"]["record_id"], "--output", folder, "--remote")
        ran = json.loads(tunefarm(environment, "artifact", "run", folder, "--json"))
        assert ran["worst_error"] <= 1.0
        bundle = str(tmp_path / "bundle")
        form = ("--form", "library", "--remote", "--output", bundle)
        tunefarm(environment, "artifact", "build", best["record"]["record_id"], *form)
        tunefarm(environment, "bundle", "check", bundle)
        classes = sorted(worker["device_class_id"] for worker in service.get("/v1/workers")["items"])
        assert classes == 2 * [best["record"]["key"]["device_class_id"]], "the service measures on its workers alone"
