"""Workloads."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tunefarm_schemas.tuning.workload import Workload
from tunefarm_schemas.views.page import Page
from tunefarm_schemas.views.workload import WorkloadList, WorkloadView
from tunefarm_services.api.access.caller import Caller, RecordsReader, RecordsWriter
from tunefarm_services.api.bodies.module import ModuleBody
from tunefarm_services.api.http.answer import answer, answer_tagged, etag_of, has_already, not_modified
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import ETAG, NOT_MODIFIED, responses
from tunefarm_services.api.operations.module_intake import understood
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id

router = APIRouter(prefix="/v1/workloads", tags=["workloads"], route_class=JsonRoute)

HashText = Annotated[str | None, Query(max_length=40, pattern=r"^-?[0-9]+$", description="TVM's structural hash.")]
VersionText = Annotated[str | None, Query(max_length=100, pattern=r"^[^\x00]*$", description="TVM's version.")]


@router.post(
    "",
    response_model=WorkloadList,
    status_code=201,
    responses=responses(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT),
)
async def create(body: ModuleBody, caller: RecordsWriter, parts: PartsOf) -> Response:
    """Store the functions of a module, normalised, and return their ids."""
    found = await parts.run_intake(caller.tenant, lambda: _stored(parts, caller, body))
    return answer(WorkloadList(workloads=tuple(WorkloadView.of(each) for each in found)), 201)


@router.get("", response_model=Page[WorkloadView], responses=responses())
def list_workloads(
    caller: RecordsReader,
    parts: PartsOf,
    structural_hash: HashText = None,
    tvm_version: VersionText = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List workloads by id, or those with a structural hash; equal hashes do not imply equal workloads."""
    paging = Paging("workloads", page_size, page_token, {"hash": structural_hash, "version": tvm_version})
    if structural_hash is not None:
        found = parts.store.workloads.with_hash(caller.tenant, structural_hash, tvm_version or "")
        return answer(Page[WorkloadView](items=tuple(WorkloadView.of(each) for each in found)))
    stored = parts.store.workloads.page(caller.tenant, paging.after, page_size + 1)
    return answer(paging.page(stored, lambda each: each.workload_id, WorkloadView.of))


@router.get(
    "/{workload_id}",
    response_model=WorkloadView,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
def get(request: Request, workload_id: Id, caller: RecordsReader, parts: PartsOf) -> Response:
    """One workload, without its module."""
    return answer_tagged(request, WorkloadView.of(parts.store.workloads.get(caller.tenant, workload_id)))


@router.get(
    "/{workload_id}/module",
    responses=responses(
        ProblemKind.NOT_FOUND,
        s200={"headers": ETAG, "content": {"application/json": {"schema": {"type": "object"}}}},
        s304=NOT_MODIFIED,
    ),
)
def get_module(request: Request, workload_id: Id, caller: RecordsReader, parts: PartsOf) -> Response:
    """The module of a workload, as ``tvm.ir.load_json`` reads it. Its ETag is the workload's id."""
    workload = parts.store.workloads.get(caller.tenant, workload_id)
    etag = etag_of(workload.workload_id)
    if has_already(request, etag):
        return not_modified(etag)
    headers = {"ETag": etag, "Cache-Control": "private, max-age=86400, immutable"}
    return Response(workload.module_json, media_type="application/json", headers=headers)


def _stored(parts: Parts, caller: Caller, body: ModuleBody) -> list[Workload]:
    understanding = understood(parts, caller.tenant, [body], None)
    return [parts.store.workloads.put(caller.tenant, each.workload) for each in understanding.workloads]
