"""An installation from the wheels tunes, serves and measures without the sources."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.house.source_files import ROOT
from tests.packaging.environment import Environment, environment_with
from tests.servers.redis_server import RedisServer
from tests.service.conftest import Service, die_with_the_tests, module_json

pytestmark = pytest.mark.faults

WHERE = """
import importlib, importlib.util, json, sys
names = ("tunefarm", *(f"tunefarm_{name}" for name in ("schemas", "sandbox", "search", "services", "workers")))
files = {name: importlib.import_module(name).__file__ for name in names if importlib.util.find_spec(name)}
print(json.dumps([files, sys.path]))
"""
EVERY_PACKAGE = {"tunefarm", *(f"tunefarm_{name}" for name in ("schemas", "sandbox", "search", "services", "workers"))}
NEEDS = {
    ("tune", "builtin:matmul"): "local",
    ("records", "best", "builtin:matmul"): "local",
    ("report",): "local",
    ("doctor",): "local",
    ("db", "stats"): "local",
    ("artifact", "run", "tuned"): "local",
    ("serve",): "local",
    ("tuner",): "server",
    ("worker", "start"): "worker",
    ("submit", "builtin:matmul"): "convert",
}


def packages_of(environment: Environment) -> set[str]:
    """Our installed packages; asserts that all come from the wheels."""
    files, path = json.loads(environment.run("python", "-c", WHERE).out)
    assert all(Path(file).is_relative_to(environment.packages) for file in files.values()), files
    assert not [entry for entry in path if Path(entry).is_relative_to(ROOT)]
    return set(files)


@contextmanager
def serving(environment: Environment, **variables: str) -> Iterator[Service]:
    service = Service(environment.home, environment.variables | variables)
    service.python, service.folder = environment.python, environment.home
    service.start()
    try:
        yield service
    finally:
        service.end()


@contextmanager
def worker(environment: Environment, log: Path, **variables: str) -> Iterator[None]:
    command = [environment.folder / "bin" / "tunefarm", "worker", "start", "--allow-missing-confinement"]
    with log.open("wb") as said:
        process = subprocess.Popen(
            command,
            env=environment.variables | variables,
            cwd=environment.home,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            preexec_fn=die_with_the_tests,
        )
    try:
        yield
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        assert process.wait(60) == 0, log.read_text()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, all_wheels: dict[str, Path]) -> Environment:
    """An environment with only the client of a service."""
    return environment_with(tmp_path_factory.mktemp("client"), all_wheels, "tunefarm")


def test_local_install_tunes_and_serves_a_client(
    tmp_path: Path, all_wheels: dict[str, Path], client: Environment
) -> None:
    local = environment_with(tmp_path / "local", all_wheels, "tunefarm[local]")
    assert packages_of(local) == EVERY_PACKAGE
    tuned = local.run("tunefarm", "tune", "builtin:matmul:32x32x32", "--trials", "4", "--output", "tuned", "--json")
    assert tuned.json()["outcome"] == "succeeded"
    assert local.run("tunefarm", "artifact", "run", "tuned").code == 0
    assert "<svg" in (local.home / "tuned" / "report.html").read_text()
    assert len(local.run("tunefarm", "records", "list", "--json").json()) == 1
    with serving(local) as service:
        with service.client() as browser:
            assert "tunefarm" in browser.get("/docs").text
        sent = local.run("tunefarm", "submit", "builtin:matmul:48x48x48", "--trials", "4", "--wait")
        assert sent.code == 0, sent.err
        url, token = service.address()
        connection = {"TUNEFARM_API_URL": url, "TUNEFARM_API_TOKEN": token}
        (client.home / "net.json").write_text(module_json(24))
        words = ("submit", "net.json", "--trials", "4", "--wait", "--output", "tuned")
        from_elsewhere = client.run("tunefarm", *words, **connection)
        assert from_elsewhere.code == 0, from_elsewhere.err
        assert list((client.home / "tuned").glob("*.so"))
        assert len(client.run("tunefarm", "records", "list", "--json", **connection).json()) == 3


def test_server_install_measures_on_worker_install(tmp_path: Path, all_wheels: dict[str, Path]) -> None:
    server = environment_with(tmp_path / "server", all_wheels, "tunefarm[server]")
    measuring = environment_with(tmp_path / "worker", all_wheels, "tunefarm[worker]")
    assert packages_of(server) == packages_of(measuring) == EVERY_PACKAGE
    with RedisServer() as broker:
        shared = {"TUNEFARM_BROKER_URL": broker.url, "TUNEFARM_BLOB_URL": str(tmp_path / "blobs")}
        with serving(server, **shared) as service, worker(measuring, tmp_path / "worker.log", **shared):
            job_id = service.submit(module_json(32), 4)
            (job,) = service.finish(job_id)
            assert job["outcome"] == "succeeded", job
            (record,) = service.get(f"/v1/jobs/{job_id}/records")["items"]
            assert record["status"] == "verified"


def test_client_install_names_missing_extras(client: Environment) -> None:
    assert packages_of(client) == {"tunefarm", "tunefarm_sandbox", "tunefarm_schemas"}
    assert "tune" in client.run("tunefarm", "--help").out
    for words, extra in NEEDS.items():
        ended = client.run("tunefarm", *words, TUNEFARM_API_URL="http://127.0.0.1:9", TUNEFARM_API_TOKEN="unused")
        assert (ended.code, ended.out) == (2, ""), ended
        assert ended.err.endswith(f"pip install 'tunefarm[{extra}]'\n"), ended.err
        assert ended.err.count("\n") == 1
