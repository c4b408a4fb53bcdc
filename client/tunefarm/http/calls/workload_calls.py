"""Calls for workloads and targets."""

from typing import Any

from tunefarm.http.api_error import ApiError
from tunefarm.http.calls.upload_calls import module_field, with_modules
from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Reply, Request
from tunefarm.intake.tvm_objects import TargetLike, module_text, target_field
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_schemas.views.target import CheckedTarget, PresetList, TargetPreset, TargetView
from tunefarm_schemas.views.workload import WorkloadList, WorkloadView


def workloads(limit: int | None = 100) -> Flow[list[WorkloadView]]:
    """Workloads ordered by id, without their modules."""
    return listed("/workloads", WorkloadView, {}, limit)


def workloads_with_hash(structural_hash: str, tvm_version: str) -> Flow[list[WorkloadView]]:
    """Workloads that may be the same function; ``structural_equal`` on their modules decides."""
    query = {"structural_hash": structural_hash, "tvm_version": tvm_version}
    return listed("/workloads", WorkloadView, query, None)


def workload_view(workload_id: str) -> Flow[WorkloadView]:
    """One workload without its module."""
    reply: Reply = yield Request("GET", f"/workloads/{workload_id}")
    return reply.read(WorkloadView)


def workload(workload_id: str) -> Flow[Workload]:
    """One workload with its module."""
    view = yield from workload_view(workload_id)
    module_json = yield from workload_module(workload_id)
    return Workload(**dict(view), module_json=module_json)


def workload_or_none(workload_id: str) -> Flow[Workload | None]:
    """A workload with its module; None if the service does not know it."""
    try:
        return (yield from workload(workload_id))
    except ApiError as refusal:
        if refusal.status != 404:
            raise
        return None


def workload_module(workload_id: str) -> Flow[str]:
    """A workload's module, as TVM JSON."""
    reply: Reply = yield Request("GET", f"/workloads/{workload_id}/module")
    return reply.content.decode()


def workloads_like(known: Workload) -> Flow[list[Workload]]:
    """Stored workloads with their modules: the one with the same id alone, else all with the same hash."""
    same = yield from workload_or_none(known.workload_id)
    if same is not None:
        return [same]
    views = yield from workloads_with_hash(known.structural_hash, known.tvm_version)
    found = []
    for view in views:
        if view.structural_hash == known.structural_hash and view.tvm_version == known.tvm_version:
            found.append((yield from workload(view.workload_id)))  # noqa: PERF401 - comprehensions cannot yield
    return found


def new_workloads(module: Any, *, function: str | None = None, all_functions: bool = False) -> Flow[list[WorkloadView]]:
    """Store the functions of a module as workloads.

    ``module`` is an IRModule, a PrimFunc, te tensors, or TVM JSON.
    """
    which = yield from module_field(module_text(module))
    body = dict(which)
    if function is not None:
        body["function"] = function
    if all_functions:
        body["all_functions"] = True
    reply = yield from with_modules([which], Request("POST", "/workloads", body=body, creates=True))
    return list(reply.read(WorkloadList).workloads)


def targets(limit: int | None = 100) -> Flow[list[TargetView]]:
    """Targets in use."""
    return listed("/targets", TargetView, {}, limit)


def target(target_id: str) -> Flow[TargetView]:
    """One target."""
    reply: Reply = yield Request("GET", f"/targets/{target_id}")
    return reply.read(TargetView)


def target_presets() -> Flow[list[TargetPreset]]:
    """Targets with short names."""
    reply: Reply = yield Request("GET", "/targets:presets")
    return list(reply.read(PresetList).presets)


def target_validation(given: TargetLike) -> Flow[CheckedTarget]:
    """A target in canonical form, with notes on the defaults that were filled in."""
    reply: Reply = yield Request("POST", "/targets:validate", body={"target": target_field(given)})
    return reply.read(CheckedTarget)
