"""A worker that sends a library of its own, to the tuner that would store it."""

import pytest

from benchmarks.kernel_library import kernel_library
from tests.libraries.attacks import AT_LOADING
from tests.libraries.hostile import Attack, calling
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Exported, ExportResult, Failed
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.tuner.verify.stored_library import checked_export

TARGET = Target(canonical='{"kind":"llvm","num-cores":2}', kind="llvm", num_cores=2)


def stored(library: bytes, *callees: str) -> ExportResult:
    sent = Exported(library=library, entry="main", process_latencies_s=(1e-5,))
    return checked_export(sent, TARGET, callees)


@pytest.mark.parametrize("attack", AT_LOADING, ids=lambda attack: attack.name.replace(" ", "-"))
def test_a_hostile_library_is_not_stored(attack: Attack) -> None:
    failed = stored(attack.make())
    assert isinstance(failed, Failed)
    assert failed.failure.reason is FailureReason.BUILD_ERROR


def test_a_kernels_library_is_stored() -> None:
    assert isinstance(stored(kernel_library()), Exported)


def test_a_callee_of_the_tenant_is_stored_and_another_names_the_setting() -> None:
    assert isinstance(stored(calling("vendor_gemm"), "vendor_gemm"), Exported)
    failed = stored(calling("vendor_gemm"))
    assert isinstance(failed, Failed)
    assert "TUNEFARM_CALLEES" in failed.failure.message
