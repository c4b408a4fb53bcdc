"""A typical store: records, finished jobs with trials and events, and a token for each client."""

import random
from typing import Final

from benchmarks.load.synthetic_jobs import SyntheticJobs
from benchmarks.store.record_fill import RecordFill
from benchmarks.store.synthetic_records import TENANT, SyntheticRecords
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.record import RecordKey
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store

_QUERY_KEYS: Final = 500
_TRIALS: Final = 256
_JOBS_WITH_TRIALS: Final = 20
_RECORD_IDS: Final = 200


class Filling(Frozen):
    """The contents of a filled store that clients request."""

    tokens: tuple[str, ...]
    job_ids: tuple[str, ...]
    searched_job_ids: tuple[str, ...]
    exploration_ids: tuple[str, ...]
    record_ids: tuple[str, ...]
    best_queries: tuple[dict[str, str], ...]
    module_json: str


def filled(settings: Settings, *, records: int, jobs: int, clients: int) -> Filling:
    """Fill the empty store of ``settings``."""
    made = SyntheticRecords(records, seed=0)
    store = Store.open(settings.database(), settings.blobs())
    fill = RecordFill(settings.database(), made)
    chance = random.Random(0)
    try:
        _put_targets(store, made)
        fill.run(lambda _chunks: None)
        making = SyntheticJobs(store, made)
        ids = [making.put(number, _TRIALS if number < _JOBS_WITH_TRIALS else 0) for number in range(jobs)]
        fill.update_statistics()
        keys = made.queries(_QUERY_KEYS)
        known = store.records.page(TENANT, limit=_RECORD_IDS)
        return Filling(
            tokens=tuple(_token(store, number) for number in range(clients)),
            job_ids=tuple(job_id for job_id, _ in ids),
            searched_job_ids=tuple(job_id for job_id, _ in ids[:_JOBS_WITH_TRIALS]),
            exploration_ids=tuple(exploration_id for _, exploration_id in ids[:_JOBS_WITH_TRIALS]),
            record_ids=tuple(record.record_id for record in known),
            best_queries=tuple(_query(key, chance) for key in keys),
            module_json=small_module_json(),
        )
    finally:
        fill.close()
        store.close()


def small_module_json() -> str:
    """A matrix product as TVM JSON, as a client would send it."""
    import tvm
    from tvm import te
    from tvm.s_tir.meta_schedule.testing.te_workload import batch_matmul_nkkm

    module = tvm.IRModule({"main": te.create_prim_func(batch_matmul_nkkm(1, 64, 64, 64))})
    return str(tvm.ir.save_json(module))


def _token(store: Store, number: int) -> str:
    scopes = (Scope.JOBS_READ, Scope.JOBS_WRITE, Scope.RECORDS_READ, Scope.DEVICES_READ, Scope.USAGE_READ)
    return store.tokens.create(TENANT, f"client {number}", scopes)[1]


def _put_targets(store: Store, made: SyntheticRecords) -> None:
    """Rows for the targets that the synthetic records name."""
    for number, target_id in enumerate(made.targets):
        target = Target(canonical=f"target {number}", kind="llvm", num_cores=2)
        assert target.target_id == target_id
        store.targets.put(TENANT, target)


def _query(key: RecordKey, chance: random.Random) -> dict[str, str]:
    """A query for the best record, with a known device or without one."""
    query = {"workload_id": key.workload_id, "target": key.target_id, "protocol_id": key.protocol_id}
    if chance.random() < 0.7:
        query |= {"device_class_id": key.device_class_id, "code_generator": key.code_generator}
    return query
