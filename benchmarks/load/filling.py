"""A store as a farm has it after a while: records, finished jobs with trials and events, a token for each client."""

import random
from typing import Final

from benchmarks.load.made_jobs import MadeJobs
from benchmarks.store.made_records import TENANT, MadeRecords
from benchmarks.store.record_fill import RecordFill
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.record import RecordKey
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store

_KEYS_ASKED: Final = 500
_TRIALS: Final = 256
_JOBS_WITH_TRIALS: Final = 20
_RECORDS_KNOWN: Final = 200


class Filling(Frozen):
    """What a filled store holds that clients ask for."""

    tokens: tuple[str, ...]
    job_ids: tuple[str, ...]
    searched_job_ids: tuple[str, ...]
    exploration_ids: tuple[str, ...]
    record_ids: tuple[str, ...]
    best_queries: tuple[dict[str, str], ...]
    module_json: str


def filled(settings: Settings, *, records: int, jobs: int, clients: int) -> Filling:
    """Fill the empty store of ``settings``."""
    made = MadeRecords(records, seed=0)
    store = Store.open(settings.database(), settings.blobs())
    fill = RecordFill(settings.database(), made)
    chance = random.Random(0)
    try:
        _put_targets(store, made)
        fill.run(lambda _chunks: None)
        making = MadeJobs(store, made)
        ids = [making.put(number, _TRIALS if number < _JOBS_WITH_TRIALS else 0) for number in range(jobs)]
        fill.settle()
        keys = made.asked(_KEYS_ASKED)
        known = store.records.page(TENANT, limit=_RECORDS_KNOWN)
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


def _put_targets(store: Store, made: MadeRecords) -> None:
    """Rows for the targets that the made records name."""
    for number, target_id in enumerate(made.targets):
        target = Target(canonical=f"target {number}", kind="llvm", num_cores=2)
        assert target.target_id == target_id
        store.targets.put(TENANT, target)


def _query(key: RecordKey, chance: random.Random) -> dict[str, str]:
    """A question for the best record: of a client that knows its device, or leaves that to the service."""
    asked = {"workload_id": key.workload_id, "target": key.target_id, "protocol_id": key.protocol_id}
    if chance.random() < 0.7:
        asked |= {"device_class_id": key.device_class_id, "code_generator": key.code_generator}
    return asked
