"""Reading a damaged row raises RowDamaged."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.store.test_store_farm import lane
from tests.store.sample import TENANT, bench, exploration_key, manifest, put_job, record, timing, workload
from tunefarm_schemas.views.device import device_id_of
from tunefarm_services.store import RowDamaged, Store

Reading = Callable[[Store], object]
DAMAGES: dict[tuple[str, str, object], Reading] = {
    ("workloads", "arguments", '["not a tensor"]'): lambda store: store.workloads.get(TENANT, workload().workload_id),
    ("workloads", "arguments", "[{"): lambda store: store.workloads.stored(TENANT, workload().workload_id),
    ("tuning_records", "status", "Infinity"): lambda store: store.records.page(TENANT, limit=10),
    ("tuning_records", "latency_s", "soon"): lambda store: store.records.page(TENANT, limit=10),
    ("tuning_records", "abi", "handle"): lambda store: store.records.page(TENANT, limit=10),
    ("artifacts", "manifest", "{}"): lambda store: store.artifacts.newest_first(TENANT),
    ("trials", "latency_s", "soon"): lambda store: store.samples.evenly(TENANT, exploration_key().exploration_id, 9),
    ("trials", "predicted_score", "high"): lambda store: store.samples.windows(
        TENANT, exploration_key().exploration_id, 2, 9
    ),
    ("jobs", "spec", "{}"): lambda store: store.jobs.page(TENANT),
    ("lane_changes", "kind", "shrug"): lambda store: store.lane_history.changes(device_id_of(lane())),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: " ".join(map(str, damage)))
def test_reading_damaged_row_names_table_and_remedy(
    store: Store, tmp_path: Path, damage: tuple[str, str, object]
) -> None:
    bench(store, put_job(store)).measure(0, timing(1e-3))
    store.lanes.put(lane())
    store.records.put(TENANT, None, record("the-record", 1e-3))
    library = b"library"
    store.artifacts.put(TENANT, manifest("the-artifact", "the-record", library), library)
    table, column, value = damage
    database = sqlite3.connect(tmp_path / "tunefarm.db")
    assert database.execute(f"UPDATE {table} SET {column} = ?", (value,)).rowcount == 1
    database.commit()
    database.close()
    with pytest.raises(RowDamaged, match=r"tunefarm.db is damaged: .* Restore the database from a backup"):
        DAMAGES[damage](store)
