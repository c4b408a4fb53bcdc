"""Several processes behind one port act as one service: they share counts and revocations, and are replaced."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.servers.processes import assert_gone, runs
from tests.service.conftest import Service, environment_of
from tunefarm_schemas.token import Scope
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT, Store

RATE = 1200


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("processes") / "home"
    home.mkdir()
    environment = environment_of(home, TUNEFARM_RATE_LIMIT=f"{RATE}/hour", TUNEFARM_REFUSED_RATE_LIMIT="10000/second")
    words = ("serve", "--port", "0", "--no-tuner", "--processes", "2")
    running = Service(home, environment, words)
    running.start()
    yield running
    if running.process is not None and running.process.poll() is None:
        running.end(signal.SIGTERM)


@pytest.fixture
def store(farm: Service) -> Iterator[Store]:
    settings = Settings(home=farm.home)
    opened = Store.open(settings.database(), settings.blobs())
    yield opened
    opened.close()


def api_processes(farm: Service) -> list[psutil.Process]:
    assert farm.process is not None
    own = psutil.Process(farm.process.pid)
    found = []
    for child in own.children():
        with suppress(psutil.Error):  # it may have ended
            if runs(child) and child.cmdline() == own.cmdline():
                found.append(child)
    return found


def statuses(farm: Service, text: str, number: int = 12) -> list[int]:
    """The status codes of ``number`` new connections, each accepted by any of the processes."""
    with farm.client() as address:
        url = f"{address.base_url}/v1/jobs?page_size=1"
    headers = {"Authorization": f"Bearer {text}"}
    return [httpx.get(url, headers=headers, verify=False).status_code for _ in range(number)]


def counted(farm: Service) -> Counter[str]:
    """The metrics, which default to 0."""
    with farm.client() as client:
        answer = client.get("/metrics")
    assert answer.is_success, answer.text
    families = text_string_to_metric_families(answer.text)
    return Counter({f"{s.name}{sorted(s.labels.items())}": s.value for family in families for s in family.samples})


def settled(farm: Service) -> Counter[str]:
    """The metrics while no request is in progress: a request is counted after its answer."""
    found = counted(farm)

    def is_settled() -> bool:
        found.clear()
        found.update(counted(farm))
        return found["tunefarm_http_requests_in_flight[]"] == 1

    farm.wait(is_settled)
    return found


LISTED = "tunefarm_http_requests_total[('method', 'GET'), ('route', '/v1/jobs'), ('status', '200')]"


@pytest.mark.faults
def test_killed_process_is_replaced(farm: Service, store: Store):
    _, text = store.tokens.create(LOCAL_TENANT, "killed", (Scope.JOBS_READ,))
    assert statuses(farm, text) == [200] * 12
    before = settled(farm)
    farm.wait(lambda: len(api_processes(farm)) == 2)
    victim, survivor = api_processes(farm)
    of_victim = victim.children(recursive=True)
    victim.kill()
    # A connection that it accepts as it is killed is lost.
    assert_gone([victim], "the victim itself")
    assert statuses(farm, text) == [200] * 12
    farm.wait(lambda: len(api_processes(farm)) == 2)
    assert runs(survivor)
    assert victim not in api_processes(farm)
    assert_gone(of_victim, "the victim")
    # Counters of the dead process remain.
    assert settled(farm)[LISTED] == before[LISTED] + 12


def test_metrics_add_up_over_processes(farm: Service, store: Store):
    _, text = store.tokens.create(LOCAL_TENANT, "figures", (Scope.JOBS_READ,))
    before = settled(farm)
    statuses(farm, text, 20)
    settled(farm)
    after = [counted(farm) for _ in range(6)]
    assert [each[LISTED] - before[LISTED] for each in after] == [20] * 6
    assert all(each["tunefarm_store_up[]"] == 1 for each in after)
    build = f"tunefarm_build_info[('service', 'api'), ('version', {version('tunefarm-services')!r})]"
    assert all(each[build] == 1 for each in after)


def test_token_revoked_by_one_process_is_invalid_in_all(farm: Service, store: Store):
    token, text = store.tokens.create(LOCAL_TENANT, "revoked", (Scope.JOBS_READ,))
    assert statuses(farm, text) == [200] * 12
    farm.post(f"/v1/tokens/{token.token_id}:revoke")
    assert statuses(farm, text) == [401] * 12


def test_token_revoked_in_store_soon_is_invalid_in_all(farm: Service, store: Store):
    token, text = store.tokens.create(LOCAL_TENANT, "revoked", (Scope.JOBS_READ,))
    assert statuses(farm, text) == [200] * 12
    store.tokens.revoke(LOCAL_TENANT, token.token_id)
    farm.wait(lambda: statuses(farm, text) == [401] * 12)


@pytest.mark.faults
def test_rate_limit_applies_to_all_processes_together(farm: Service, store: Store):
    _, text = store.tokens.create(LOCAL_TENANT, "greedy", (Scope.JOBS_READ,))
    answered = []
    with farm.client() as one, farm.client() as other, farm.client() as third:
        headers = {"Authorization": f"Bearer {text}"}
        for _ in range(RATE // 2):
            answered += [client.get("/v1/jobs?page_size=1", headers=headers) for client in (one, other, third)]
    let_through = [answer for answer in answered if answer.status_code == 200]
    assert RATE <= len(let_through) <= RATE + 5
    assert int(answered[-1].headers["Retry-After"]) > 0


def test_terminated_service_leaves_nothing(farm: Service):
    family = [*api_processes(farm), *(child for each in api_processes(farm) for child in each.children())]
    farm.end(signal.SIGTERM)
    assert farm.process is not None
    assert farm.process.returncode == 0
    assert_gone(family, "a service that was ended in order")
    assert not (farm.home / "api.json").exists()
    assert not list((farm.home / "scratch").iterdir())


@pytest.mark.faults
def test_killed_service_leaves_no_process(farm: Service):
    if farm.process is not None and farm.process.poll() is None:
        farm.end(signal.SIGTERM)
    farm.start()
    family = [*api_processes(farm), *(child for each in api_processes(farm) for child in each.children())]
    assert len(family) >= 2
    farm.end(signal.SIGKILL)
    assert_gone(family, "a service that was killed")
