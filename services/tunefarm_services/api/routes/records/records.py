"""Tuning records."""

from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.record import RecordMatch, RecordStatus, TuningRecord
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_schemas.views.database import ExportedDatabase, ImportReport
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import RecordsReader, RecordsWriter
from tunefarm_services.api.bodies.record import BestBody, DatabaseBody, ExportBody, PublishBody, RetractBody
from tunefarm_services.api.http.answer import answer, answer_tagged
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.problem_handlers import unusable
from tunefarm_services.api.http.responses import ETAG, LOCATION, NOT_MODIFIED, responses
from tunefarm_services.api.operations.best_records import Question, best_records, needs_child
from tunefarm_services.api.operations.claims import export_database, import_database, publish
from tunefarm_services.api.operations.module_intake import target_question
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.field_errors import field_problems
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id, IdFilter, IdPrefix

router = APIRouter(prefix="/v1", tags=["records"], route_class=JsonRoute)

QueryText = Annotated[str | None, Query(max_length=2000, pattern=r"^[^\x00]+$")]
NEEDED = (ProblemKind.NOT_FOUND, ProblemKind.CONFLICT)


@router.get("/records", response_model=Page[TuningRecord], responses=responses())
def list_records(
    caller: RecordsReader,
    parts: PartsOf,
    workload_id: IdFilter = None,
    target_id: IdFilter = None,
    device_class_id: IdFilter = None,
    exploration_id: IdFilter = None,
    status: RecordStatus | None = None,
    source: Annotated[
        Literal["tuned", "imported", "published"] | None, Query(description="The origin of the record.")
    ] = None,
    id_prefix: IdPrefix = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List records by id."""
    filters = {
        "workload_id": workload_id,
        "target_id": target_id,
        "device_class_id": device_class_id,
        "exploration_id": exploration_id,
        "source": source,
        "id_prefix": id_prefix,
    }
    paging = Paging("records", page_size, page_token, {**filters, "status": status})
    found = parts.store.records.page(caller.tenant, **filters, status=status, after=paging.after, limit=page_size + 1)
    return answer(paging.page(found, lambda record: record.record_id, lambda record: record))


@router.post(
    "/records",
    response_model=TuningRecord,
    status_code=201,
    responses=responses(
        *NEEDED, s201={"headers": LOCATION}, s200={"description": "It already existed.", "model": TuningRecord}
    ),
)
async def create(body: PublishBody, caller: RecordsWriter, parts: PartsOf) -> Response:
    """Publish a schedule with a claimed latency. Its trace must apply; it is not measured."""
    record, is_new = await parts.run_intake(caller.tenant, lambda: publish(parts, caller.tenant, body))
    return answer(record, 201 if is_new else 200, Location=f"/v1/records/{record.record_id}")


@router.get("/records:best", response_model=Page[RecordMatch], responses=responses(*NEEDED))
async def best(
    caller: RecordsReader,
    parts: PartsOf,
    workload_id: IdFilter = None,
    upload_id: IdFilter = None,
    function: QueryText = None,
    target: Annotated[QueryText, Query(description="A preset, a tag, a target's id, or JSON.")] = None,
    device_class_id: IdFilter = None,
    code_generator: QueryText = None,
    protocol_id: Annotated[str, Query(max_length=100)] = HOT_CACHE.protocol_id,
    abi: Abi = "stable",
    limit: Annotated[int, Query(ge=1, le=100)] = 8,
) -> Response:
    """Find the best records for a workload or an uploaded module, with the kind of each match: see the POST form."""
    if (workload_id is None) == (upload_id is None):
        fix = "Give one of workload_id and upload_id, or POST a module."
        raise BadInput("workload_id", "It is missing, or given together with upload_id.", fix)
    try:
        body = BestBody(
            workload_id=workload_id,
            upload_id=upload_id,
            function=function,
            target=target,
            device_class_id=device_class_id,
            code_generator=code_generator,
            protocol_id=protocol_id,
            abi=abi,
            limit=limit,
        )
    except ValidationError as error:
        wrong = [{**each, "loc": ("query", *each["loc"])} for each in error.errors()]
        raise unusable(field_problems(wrong)) from error
    return await _best(parts, caller.tenant, body)


@router.post("/records:best", response_model=Page[RecordMatch], responses=responses(*NEEDED))
async def best_of_module(body: BestBody, caller: RecordsReader, parts: PartsOf) -> Response:
    """Find the best records for a module, the most trustworthy first.

    ``exact``: verified, for this function, target, device class, code generator, protocol and ABI; safe to use.
    ``same_workload_other_device``: a starting point without a guarantee. ``similar``: another shape, good for transfer.
    """
    return await _best(parts, caller.tenant, body)


async def _best(parts: Parts, tenant: str, body: BestBody) -> Response:
    """Wait for a child only if the query needs one; most do not."""

    def answered(question: Question) -> Response:
        return answer(Page[RecordMatch].model_construct(items=tuple(best_records(parts, tenant, body, question))))

    def unless_child_is_needed() -> Response | Question:
        question = target_question(parts, tenant, body.target)
        return question if needs_child(parts, body, question) else answered(question)

    found = await to_thread.run_sync(unless_child_is_needed)
    return found if isinstance(found, Response) else await parts.run_intake(tenant, lambda: answered(found))


@router.post("/records:import", response_model=ImportReport, responses=responses(*NEEDED))
async def import_records(body: DatabaseBody, caller: RecordsWriter, parts: PartsOf) -> Response:
    """Import a TVM JSON database as claims. Each rejected line is reported with its reason."""
    return answer(await parts.run_exchange(caller.tenant, lambda: import_database(parts, caller.tenant, body)))


@router.post("/records:export", response_model=ExportedDatabase, responses=responses(*NEEDED))
async def export_records(body: ExportBody, caller: RecordsReader, parts: PartsOf) -> Response:
    """Export records as a TVM JSON database that unmodified TVM loads."""
    return answer(await parts.run_exchange(caller.tenant, lambda: export_database(parts, caller.tenant, body)))


@router.get(
    "/records/{record_id}",
    response_model=TuningRecord,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
def get(request: Request, record_id: Id, caller: RecordsReader, parts: PartsOf) -> Response:
    """One record."""
    return answer_tagged(request, parts.store.records.get(caller.tenant, record_id))


@router.post("/records/{record_id}:retract", response_model=TuningRecord, responses=responses(ProblemKind.NOT_FOUND))
def retract(record_id: Id, body: RetractBody, caller: RecordsWriter, parts: PartsOf) -> Response:
    """Retract a record. It remains stored with the reason, but queries no longer return it."""
    return answer(parts.store.records.retract(caller.tenant, record_id, body.reason))
