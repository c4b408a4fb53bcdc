"""A job that asks for more trials continues the explorations of the job that it extends, also of a fresh one."""

import pytest

from tests.store.sample import TENANT, leased, put_task, spec
from tunefarm_schemas.tuning.job import Job
from tunefarm_services.jobs.copies import JobChanges, cloned_spec, extended_spec
from tunefarm_services.store import Store
from tunefarm_services.tuner.job.search_orders import Place, opened_explorations


def explored(store: Store, job: Job) -> list[str]:
    place = Place("a device class", "a code generator")
    lease = leased(store, job)
    return [run.exploration_id for run in opened_explorations(store, place, lease, job, lambda: None)]


@pytest.mark.parametrize("fresh", [False, True])
def test_extension_continues_the_same_explorations(store: Store, fresh: bool) -> None:
    wanted = spec(put_task(store, "a"), put_task(store, "b")).model_copy(update={"fresh": fresh})
    first = store.jobs.create(TENANT, wanted)
    searched = explored(store, first)
    second = store.jobs.create(TENANT, extended_spec(store.explorations, first, 5)[0])
    third = store.jobs.create(TENANT, extended_spec(store.explorations, second, 5)[0])
    assert explored(store, second) == explored(store, third) == searched
    clone = store.jobs.create(TENANT, cloned_spec(third, JobChanges()))
    assert (explored(store, clone) == searched) is not fresh
