"""Where a workload has verified records."""

from tests.store.sample import TARGET, TENANT, put_task, record, record_key
from tunefarm_schemas.tuning.record import RecordStatus


def test_places_list_verified_records_once(open_store):
    store = open_store()
    workload_id = put_task(store).workload_id
    for number, changes in enumerate(({}, {}, {"code_generator": "newer"}, {"device_class_id": "other"})):
        store.records.put(TENANT, None, record(f"r{number}", 1e-3 * (number + 1), key=record_key(**changes)))
    claimed = record("claimed", 1e-3, key=record_key(device_class_id="claimed"), status=RecordStatus.CLAIMED)
    store.records.put(TENANT, None, claimed)
    key = record_key()
    own, newer = (key.device_class_id, key.code_generator), (key.device_class_id, "newer")
    other = ("other", key.code_generator)
    assert store.best_records.places(TENANT, workload_id, TARGET.target_id) == sorted([own, newer, other])
    assert store.best_records.places(TENANT, workload_id, TARGET.target_id, "other") == [other]
    assert store.best_records.places("somebody else", workload_id, TARGET.target_id) == []
    for record_id in ("r0", "r1"):
        store.records.retract(TENANT, record_id, "drifted")
    assert store.best_records.places(TENANT, workload_id, TARGET.target_id) == sorted([newer, other])
