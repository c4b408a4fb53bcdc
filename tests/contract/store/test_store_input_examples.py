"""Input examples are kept as long as a job or an artifact refers to them."""

import pytest

from tests.store.sample import TENANT, put_task, spec
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.job import JobSpec
from tunefarm_services.store import NotFound, Store

EXAMPLE = InputExample(content=b"\x00\x01" * 64)
NAMED = InputSpec(argument="A", kind="example", example_digest=EXAMPLE.example_digest)


def job_spec(store: Store) -> JobSpec:
    return spec(put_task(store)).model_copy(update={"input_specs": (NAMED,)})


def test_input_example_is_kept_with_its_job(store: Store) -> None:
    job = store.jobs.create(TENANT, job_spec(store), examples=(EXAMPLE,))
    assert store.garbage.collect().removed == 0
    assert store.input_examples.get(store.jobs.get(TENANT, job.job_id).spec.input_specs) == (EXAMPLE,)
    assert store.inspection.check().problems == ()
    store.jobs.delete(TENANT, job.job_id)
    assert store.garbage.collect().removed == 1


def test_input_example_requires_its_content(store: Store) -> None:
    with pytest.raises(NotFound, match="input example"):
        store.jobs.create(TENANT, job_spec(store))
    assert store.jobs.page(TENANT) == []
