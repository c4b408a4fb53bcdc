"""What belongs to a record: its code, its runners-up, and its latency in the field."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.record import CodeForm, RecordCode, RecordInField, RecordTrials
from tunefarm_services.api.access.caller import FieldReader, RecordsReader
from tunefarm_services.api.http.answer import answer, answer_tagged
from tunefarm_services.api.http.responses import ETAG, NOT_MODIFIED, responses
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.operations.record_code import record_code
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.api.routes.path import Id
from tunefarm_services.record_views.record_trials import fastest_trials

router = APIRouter(prefix="/v1/records", tags=["records"])

Form = Annotated[
    CodeForm,
    Query(
        description="`python`: the trace as Python. `scheduled`: the scheduled function as TensorIR. `diff`: from the "
        "original function to it. `lowered`: TIR after TVM's lowering passes. `assembly`: the machine code of the "
        "library that ships, disassembled."
    ),
]


@router.get(
    "/{record_id}/code",
    response_model=RecordCode,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
async def get_code(
    request: Request, record_id: Id, caller: RecordsReader, parts: PartsOf, form: Form = CodeForm.SCHEDULED
) -> Response:
    """The code of a record as text.

    A confined process writes it. `assembly` also requires the scope `artifacts:read`.
    """
    if form is CodeForm.ASSEMBLY and not caller.may(Scope.ARTIFACTS_READ):
        needed = Scope.ARTIFACTS_READ.value
        raise ApiProblem(ProblemKind.FORBIDDEN, f"This form needs a token with the scope {needed}.")
    return answer_tagged(request, await record_code(parts, caller.tenant, record_id, form))


@router.get(
    "/{record_id}/trials",
    response_model=RecordTrials,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
def get_trials(request: Request, record_id: Id, caller: RecordsReader, parts: PartsOf) -> Response:
    """The fastest trials of the record's search, and which of them are as fast as the record within noise."""
    record = parts.store.records.get(caller.tenant, record_id)
    return answer_tagged(request, fastest_trials(parts.store.points, parts.store.trials, record))


@router.get("/{record_id}/field", response_model=RecordInField, responses=responses(ProblemKind.NOT_FOUND))
def get_field(record_id: Id, caller: FieldReader, parts: PartsOf) -> Response:
    """The measured latency of a record, beside what edge devices report of the releases with its schedule.

    Reports are claims of devices, not measurements.
    """
    return answer(parts.record_fields.get(caller.tenant, record_id))
