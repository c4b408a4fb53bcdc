"""Prometheus reads the metrics; a probe learns only whether the process is healthy."""

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.store import Store, StoreUnavailable
from tunefarm_services.telemetry.farm_collector import FAMILIES, FarmCollector
from tunefarm_services.telemetry.metrics import Metrics
from tunefarm_services.telemetry.metrics_server import MetricsServer


def samples(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {f"{s.name}{sorted(s.labels.items())}": s.value for family in families for s in family.samples}


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_of_two_services_are_separate():
    one, other = Metrics("api"), Metrics("api")
    one.jobs_leased.inc()
    assert samples(one.text().decode())["tunefarm_jobs_leased_total[]"] == 1
    assert samples(other.text().decode())["tunefarm_jobs_leased_total[]"] == 0


def test_scrape_returns_counters():
    metrics = Metrics("tuner")
    metrics.measurements.labels(result="crash").inc(2)
    with MetricsServer("127.0.0.1:0", metrics) as server:
        status, text = get(f"{server.url}/metrics")
    assert status == 200
    assert samples(text)["tunefarm_measurements_total[('result', 'crash')]"] == 2


def test_probe_fails_while_process_is_unhealthy():
    well = True
    with MetricsServer("127.0.0.1:0", Metrics("tuner"), lambda: well) as server:
        assert get(f"{server.url}/healthz")[0] == 200
        well = False
        assert get(f"{server.url}/healthz")[0] == 503


def test_other_paths_are_not_found():
    with MetricsServer("127.0.0.1:0", Metrics("tuner")) as server:
        assert get(f"{server.url}/metrics/../etc/passwd") == (404, "Not Found\n")


@pytest.mark.parametrize("listen", ["9464", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999"])
def test_invalid_address_is_rejected_with_a_fix(listen):
    with pytest.raises(BadInput, match="TUNEFARM_METRICS_LISTEN"):
        MetricsServer(listen, Metrics("tuner"))


def test_farm_metrics_come_from_store(tmp_path):
    store = Store.open(f"sqlite:///{tmp_path}/tunefarm.db", tmp_path / "blobs")
    metrics = Metrics("api")
    metrics.collect_from(FarmCollector(store.queue, store.lanes))
    found = samples(metrics.text().decode())
    store.close()
    assert found["tunefarm_store_up[]"] == 1
    assert found["tunefarm_jobs_open[('state', 'queued')]"] == 0
    assert found["tunefarm_queue_oldest_seconds[]"] == 0


def test_scrape_succeeds_while_store_is_down():
    class Down:
        def overview(self):
            raise StoreUnavailable("gone.", "Start it.")

    metrics = Metrics("api")
    metrics.collect_from(FarmCollector(Down(), Down()))
    found = samples(metrics.text().decode())
    assert found["tunefarm_store_up[]"] == 0
    assert not {name.partition("[")[0] for name in found} & (set(FAMILIES) - {"tunefarm_store_up"})
