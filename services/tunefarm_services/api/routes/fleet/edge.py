"""What edge devices call."""

import time

from fastapi import APIRouter
from starlette.responses import Response

from tunefarm_schemas.edge.device import EdgeAdvice, EdgePoll, Enrolment, EnrolmentRequest
from tunefarm_schemas.edge.report import EdgeReports
from tunefarm_services.api.access.caller import EdgePoller
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.edge_channels import advice_for, polling_device
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind

router = APIRouter(prefix="/v1/edge", tags=["edge"], route_class=JsonRoute)


@router.post("/enrolments", response_model=Enrolment, status_code=201, responses=responses())
def enrol(body: EnrolmentRequest, parts: PartsOf) -> Response:
    """Enrol a device by a one-time code. Needs no token; the answer has the device's, shown once."""
    enrolment = parts.store.enrolments.enrol(body, time.time())
    if enrolment is None:
        detail = "The code is unknown, used or expired. Ask for a new one."
        raise ApiProblem(ProblemKind.FORBIDDEN, detail, field="code", fix="Ask for a new one.")
    return answer(enrolment, 201)


@router.post("/polls", response_model=EdgeAdvice, responses=responses())
def poll(body: EdgePoll, caller: EdgePoller, parts: PartsOf) -> Response:
    """Say what the device runs, and get what it should run."""
    return answer(advice_for(parts, caller.token, body, time.time()))


@router.post("/reports", status_code=204, responses=responses())
def report(body: EdgeReports, caller: EdgePoller, parts: PartsOf) -> Response:
    """Report installations, latencies and self-tests. Reports with a known id have no further effect."""
    known = polling_device(parts.store.polling, caller.token)
    document = None if known.followed is None else known.followed[0]
    parts.store.edge_reports.add(caller.tenant, known.device, body, document, time.time())
    return Response(status_code=204)
