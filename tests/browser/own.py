"""What a tenant with one of everything has, beside the job that ``tunefarm tune`` left in its store."""

from dataclasses import replace

from tests.api.stored import Belongings, furnished, lane, put_job, summarize
from tests.browser.page_list import Shown
from tests.dashboard.model_jobs import BUILT, ROOFLINE, ended, model_job, task
from tests.service.space.stored_space import put_space
from tests.store.sample import exploration_key
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.farm.lane import LaneState, ReferenceCheck
from tunefarm_schemas.tuning.job import JobState
from tunefarm_schemas.views.device import device_id_of
from tunefarm_services.store import LOCAL_TENANT, Store

FUNCTIONS = ("conv", "a_function_of_a_rather_long_name" * 3, "dense")


def fill(store: Store) -> Shown:
    """Store jobs, a model, a channel and a device beside the real job of ``tunefarm tune``."""
    job = store.jobs.page(LOCAL_TENANT, JobState.FINISHED)[0]
    record = store.records.page(LOCAL_TENANT)[0]
    mine = furnished(store, LOCAL_TENANT)
    put_space(mine.bench, 100, first_number=2)
    summarize(store, mine, 1e-3, (0.9e-3, 1.1e-3))
    store.leases.release(mine.lease)
    _put_device(store)
    return Shown(
        job_id=job.job_id,
        open_job_id=put_job(store, LOCAL_TENANT, "open").job_id,
        exploration_id=store.explorations.of_job(LOCAL_TENANT, job.job_id)[0].exploration_id,
        record_id=record.record_id,
        artifact_id=store.artifacts.newest_first(LOCAL_TENANT, record.record_id)[0].artifact_id,
        space_job_id=mine.job_id,
        other_job_id=_put_other_job(store, mine),
        model_job_id=put_model(store, FUNCTIONS),
        device_id=device_id_of(lane()),
        channel=mine.name,
    )


def put_model(store: Store, names: tuple[str, ...], tenant: str = LOCAL_TENANT) -> str:
    """A job of a model that was built; returns the job's id."""
    job, lease = model_job(store, names, tenant)
    ended(store, lease, tuple(task(name, roofline=ROOFLINE) for name in names), BUILT)
    store.leases.release(lease)
    return job.job_id


def _put_other_job(store: Store, mine: Belongings) -> str:
    """A finished job of the same task, which was twice as fast."""
    job = put_job(store, LOCAL_TENANT)
    lease = store.leases.acquire(LOCAL_TENANT, job.job_id, "tuner", 60.0)
    assert lease is not None
    key = exploration_key(f"module of {LOCAL_TENANT}", tenant=LOCAL_TENANT)
    assert store.explorations.open(lease, key).exploration_id == mine.exploration_id
    summarize(store, replace(mine, job_id=job.job_id, lease=lease), 0.5e-3, (0.4e-3, 0.6e-3))
    store.leases.release(lease)
    return job.job_id


def _put_device(store: Store) -> None:
    """A device that became slower, was quarantined, and recovered."""
    reference = lane().device.reference
    store.lanes.put(lane())
    for state, factor in ((LaneState.QUARANTINED, 1.5), (LaneState.READY, 1.0)):
        times = reference.model_copy(update={"compute_s": factor * reference.compute_s})
        check = ReferenceCheck(times=times, checked_at=utc_now())
        reason = "compute is 1.50 times slower than calibrated" if state is LaneState.QUARANTINED else ""
        store.lanes.put(lane().model_copy(update={"state": state, "reason": reason, "last_check": check}))
