"""The records of this machine's store that a bundle is built from."""

from collections.abc import Sequence

from tunefarm.bundle.bundle_source import FunctionsSource
from tunefarm.bundle.record_functions import functions_of_records
from tunefarm.local.machine import LocalMachine
from tunefarm.terminal.named_id import ASKED_FOR
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BundleForm
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_services.jobs.job_records import records_of_job
from tunefarm_services.store import LOCAL_TENANT, Store

FIELD = "source"


def functions_of_ids(
    machine: LocalMachine, ids: Sequence[str], target: str, form: BundleForm
) -> tuple[FunctionsSource, str]:
    """The functions of records and of jobs, given by ids or prefixes of them, and a name for the bundle.

    Raises:
        BadInput: an id is unknown or ambiguous, or its records cannot be a part of a bundle.
    """
    store = machine.known_store
    records: dict[str, TuningRecord] = {}
    for text in ids:
        found = named(store, text)
        of_source = _of_job(store, found) if store is not None and isinstance(found, Job) else [found]
        records |= {each.record_id: each for each in of_source if isinstance(each, TuningRecord)}
    if store is None or not records:
        raise _unknown(ids[0])
    source = functions_of_records(store, LOCAL_TENANT, list(records.values()), target or None, form)
    names = {each.workload.name for each in source.functions}
    return source, names.pop() if len(names) == 1 else "functions"


def only_job_of_model(machine: LocalMachine, ids: Sequence[str]) -> Job | None:
    """The job of a model, if it is all that ``ids`` name. Raises BadInput."""
    found = named(machine.known_store, ids[0]) if len(ids) == 1 else None
    return found if isinstance(found, Job) and found.spec.of_model else None


def named(store: Store | None, text: str) -> TuningRecord | Job:
    """The record or the job whose id is or begins with ``text``. Raises BadInput."""
    if store is None or not text:
        raise _unknown(text)
    records = store.records.page(LOCAL_TENANT, limit=ASKED_FOR, id_prefix=text)
    jobs = store.jobs.page(LOCAL_TENANT, limit=ASKED_FOR, id_prefix=text)
    ids = [each.record_id for each in records] + [each.job_id for each in jobs]
    exact = [each for each in ids if each == text]
    if len(ids) > 1 and not exact:
        named = ", ".join(ids[: ASKED_FOR - 1])
        problem = f"several records and jobs begin with {text!r}: {named}."
        raise BadInput(FIELD, problem, "Give more characters of its id.")
    if not ids:
        raise _unknown(text)
    chosen = exact[0] if exact else ids[0]
    record = next((each for each in records if each.record_id == chosen), None)
    return record if record is not None else next(each for each in jobs if each.job_id == chosen)


def _of_job(store: Store, job: Job) -> Sequence[TuningRecord]:
    found = records_of_job(store, LOCAL_TENANT, job.job_id)
    if not found:
        problem = f"job {job.job_id} has no verified record."
        raise BadInput(FIELD, problem, f"See what came of it: tunefarm jobs show {job.job_id}")
    return found


def _unknown(text: str) -> BadInput:
    fix = "Give a model's file, or see: tunefarm records list, tunefarm jobs list"
    return BadInput(FIELD, f"there is no model, record or job {text[:100]!r}.", fix)
