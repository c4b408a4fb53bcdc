"""A MetaSchedule builder that defers the build to the farm: ``FarmRunner`` sends the modules."""

import json
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder

from tunefarm.intake.tvm_workload import target_attributes
from tunefarm.remote.tickets import TICKETS, ScheduledModule
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.workload import workload_of


@derived_object
class FarmBuilder(PyBuilder):  # type: ignore[misc]
    """A builder for TVM's own tuning; with ``FarmRunner``, TVM measures on a farm.

    The farm compiles each module unchanged. If TVM's schedule rewrites the layout of an argument, the rewrite is part
    of the function and of its latency, as in the function that ships.
    """

    def build(self, build_inputs: Any) -> list[BuilderResult]:
        """Store each module under a ticket, and return the ticket as the path of the built library."""
        return [_kept(each) for each in build_inputs]


def _kept(build_input: Any) -> BuilderResult:
    if build_input.params:
        return BuilderResult(None, "tunefarm: a farm cannot measure modules with bound parameters.")
    try:
        workload = workload_of(build_input.mod)
    except BadInput as problem:
        return BuilderResult(None, f"tunefarm: {problem}")
    target = json.dumps(target_attributes(build_input.target), sort_keys=True)
    return BuilderResult(TICKETS.issue(ScheduledModule(module_json=workload.module_json, target=target)), None)
