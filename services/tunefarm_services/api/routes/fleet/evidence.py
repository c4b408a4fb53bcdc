"""What devices of a channel have reported of its release."""

import time

from fastapi import APIRouter
from starlette.responses import Response

from tunefarm_schemas.views.fleet import ChannelEvidence
from tunefarm_services.api.access.caller import DevicesReader
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.fleet.channels import ChannelName

router = APIRouter(prefix="/v1", tags=["channels"])


@router.get("/channels/{name}/evidence", response_model=ChannelEvidence, responses=responses(ProblemKind.NOT_FOUND))
def get_evidence(name: ChannelName, caller: DevicesReader, parts: PartsOf) -> Response:
    """What the gate knows of the rollout's stage, and the channel's devices by release. Claims of devices."""
    return answer(parts.store.channel_evidence.of_channel(caller.tenant, name, time.time()))
