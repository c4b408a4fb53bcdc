"""The tuner checks libraries that workers send before it stores them."""

from collections.abc import Callable

import pytest

from benchmarks.kernel_library import kernel_library
from tests.libraries.attacks import AT_LOADING
from tests.libraries.hostile import MARKED, Attack, calling, linked
from tests.store.sample import TENANT
from tests.tuner.conftest import wait_finished
from tests.tuner.instant_farm import InstantFarm
from tests.tuner.search.test_searching import matmul, tune_job
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.tuning.measurement import Exported, ExportOrder, ExportResult, Failed
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store import Store
from tunefarm_services.tuner.verify.stored_library import checked_export

TARGET = Target(canonical='{"kind":"llvm","num-cores":2}', kind="llvm", num_cores=2)


def stored(library: bytes, *callees: str) -> ExportResult:
    sent = Exported(library=library, entry="main", process_latencies_s=(1e-5,))
    return checked_export(sent, TARGET, callees)


@pytest.mark.parametrize("attack", AT_LOADING, ids=lambda attack: attack.name.replace(" ", "-"))
def test_hostile_library_is_rejected(attack: Attack) -> None:
    failed = stored(attack.make())
    assert isinstance(failed, Failed)
    assert failed.failure.reason is FailureReason.BUILD_ERROR


def test_kernel_library_is_accepted() -> None:
    assert isinstance(stored(kernel_library()), Exported)


def test_library_may_only_call_allowed_callees() -> None:
    assert isinstance(stored(calling("vendor_gemm"), "vendor_gemm"), Exported)
    failed = stored(calling("vendor_gemm"))
    assert isinstance(failed, Failed)
    assert "TUNEFARM_CALLEES" in failed.failure.message


class SendingFarm(InstantFarm):
    """Returns a hostile library from every export."""

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        exported = super().export(order, on_wait)
        return exported.model_copy(update={"library": linked(MARKED)})


def test_job_with_hostile_worker_ships_nothing(store: Store, tuner: Callable[..., object]) -> None:
    job = tune_job(store, matmul(56), 2)
    with tuner(lambda lease, job: SendingFarm()):
        wait_finished(store, job)
    assert store.artifacts.newest_first(TENANT) == []
    ended = store.jobs.get(TENANT, job.job_id)
    assert ended.outcome is JobOutcome.FAILED
    assert "runs when it is loaded" in ended.message
