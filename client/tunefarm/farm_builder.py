"""A MetaSchedule builder that builds nothing here: it keeps what is to be measured for ``FarmRunner`` to send."""

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
    """Stands where TVM takes a builder, together with ``FarmRunner``, so that stock tuning measures on a farm.

    The farm compiles each module as it stands. Where TVM's schedules rewrite the layout of an argument, the rewriting
    is part of the function and of its time, as it is of the function that ships.
    """

    def build(self, build_inputs: Any) -> list[BuilderResult]:
        """Keep each module under a ticket, which takes the place of the built library's path."""
        return [_kept(each) for each in build_inputs]


def _kept(build_input: Any) -> BuilderResult:
    if build_input.params:
        return BuilderResult(None, "tunefarm: modules with bound parameters are not measured on a farm.")
    try:
        workload = workload_of(build_input.mod)
    except BadInput as problem:
        return BuilderResult(None, f"tunefarm: {problem}")
    target = json.dumps(target_attributes(build_input.target), sort_keys=True)
    return BuilderResult(TICKETS.issue(ScheduledModule(module_json=workload.module_json, target=target)), None)
