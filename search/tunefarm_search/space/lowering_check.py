"""A postprocessor that rejects schedules for GPUs that do not build."""

from typing import Any

import tvm
from tvm import tirx

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.tvm.target import tvm_target


class LoweringCheck:
    """Rejects what TVM's passes for CUDA cannot lower, before it takes a build and a trial.

    They do not lower vectors whose elements are no neighbours in memory. The tiles of such copies to shared memory are
    found in one of seven random candidates for a convolution. Lowering takes 10 to 20 ms, as the other postprocessors.
    """

    def __init__(self, target: Target) -> None:
        self._target = tvm.target.Target(tvm_target(target), host="llvm")

    def apply(self, schedule: Any) -> bool:
        """Whether TVM can lower the schedule. Does not change it."""
        lower, _, _ = tirx.get_default_tir_pipeline(self._target)
        try:
            lower(tirx.transform.BindTarget(self._target)(schedule.mod))
        except TVM_ERRORS:
            return False
        return True
