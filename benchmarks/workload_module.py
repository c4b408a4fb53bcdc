"""The workloads of the comparison: TVM's own test suite."""

from typing import Any

from tvm.ir import IRModule
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload


def workload_module(name: str) -> IRModule:
    """The module of a workload in TVM's test suite, such as ``GMM``, with one function called ``main``."""
    function: Any = create_te_workload(name, 0)
    return IRModule({"main": function.with_attr("global_symbol", "main").with_attr("tirx.noalias", True)})
