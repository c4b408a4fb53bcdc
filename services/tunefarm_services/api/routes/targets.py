"""Targets."""

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.views.page import Page
from tunefarm_schemas.views.target import CheckedTarget, PresetList, TargetView
from tunefarm_services.api.access.caller import AnyCaller, Caller
from tunefarm_services.api.bodies.body import Body, with_examples
from tunefarm_services.api.http.answer import answer, answer_tagged
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import ETAG, NOT_MODIFIED, responses
from tunefarm_services.api.intake.target_presets import PRESETS
from tunefarm_services.api.operations.module_intake import target_question
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id

router = APIRouter(prefix="/v1", tags=["targets"], route_class=JsonRoute)


class TargetBody(Body):
    """A target to check and convert to canonical form."""

    model_config = with_examples({"target": "host"}, {"target": {"kind": "llvm", "mcpu": "znver4"}})

    target: str | dict[str, object] = Field(description="A target in any form that a job accepts.")


@router.get("/targets", response_model=Page[TargetView], responses=responses())
def list_targets(
    caller: AnyCaller, parts: PartsOf, page_size: PageSize = DEFAULT_SIZE, page_token: PageToken = None
) -> Response:
    """List the targets of the tenant's jobs and records by id."""
    paging = Paging("targets", page_size, page_token)
    found = parts.store.targets.page(caller.tenant, paging.after, page_size + 1)
    return answer(paging.page(found, lambda target: target.target_id, TargetView.of))


@router.get("/targets:presets", response_model=PresetList, responses=responses())
async def presets(_caller: AnyCaller) -> Response:
    """List targets with short names."""
    return answer(PresetList(presets=PRESETS))


@router.post("/targets:validate", response_model=CheckedTarget, responses=responses(ProblemKind.NOT_FOUND))
async def validate(body: TargetBody, caller: AnyCaller, parts: PartsOf) -> Response:
    """Check whether TVM and LLVM accept a target, and return its canonical form."""
    return answer(await parts.run_intake(caller.tenant, lambda: _checked(parts, caller, body)))


@router.get(
    "/targets/{target_id}",
    response_model=TargetView,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
def get(request: Request, target_id: Id, caller: AnyCaller, parts: PartsOf) -> Response:
    """One target."""
    return answer_tagged(request, TargetView.of(parts.store.targets.get(target_id, tenant=caller.tenant)))


def _checked(parts: Parts, caller: Caller, body: TargetBody) -> CheckedTarget:
    question = target_question(parts, caller.tenant, body.target)
    if isinstance(question, Target):
        return CheckedTarget(**TargetView.of(question).model_dump(), notes=())
    found = parts.intake.target(question)
    return CheckedTarget(**TargetView.of(found.target).model_dump(), notes=found.notes)
