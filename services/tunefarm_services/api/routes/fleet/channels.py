"""Channels and the rollouts of their releases."""

import time
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_schemas.views.fleet import ChannelEvidence, ChannelView
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import Caller, DevicesAdmin, DevicesReader
from tunefarm_services.api.bodies.fleet import ReasonBody, RetunePolicyBody
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.edge_channels import actor_of
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.fleet.rollout import RolloutVerb
from tunefarm_services.store.fleet.channel_views import channel_view, channel_views

router = APIRouter(prefix="/v1", tags=["channels"], route_class=JsonRoute)

ChannelName = Annotated[str, Path(max_length=100, pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$", description="Its name.")]
_CHANGES = responses(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT)


@router.get("/channels", response_model=Page[ChannelView], responses=responses())
def list_channels(
    caller: DevicesReader, parts: PartsOf, page_size: PageSize = DEFAULT_SIZE, page_token: PageToken = None
) -> Response:
    """List channels with the rollouts of their releases."""
    paging = Paging("channels", page_size, page_token)
    found = [
        view
        for view in channel_views(parts.store.rollouts, caller.tenant)
        if paging.after is None or view.channel > paging.after
    ]
    return answer(paging.page(found, lambda view: view.channel, lambda view: view))


@router.get("/channels/{name}", response_model=ChannelView, responses=responses(ProblemKind.NOT_FOUND))
def get_channel(name: ChannelName, caller: DevicesReader, parts: PartsOf) -> Response:
    """One channel with the rollout of its release."""
    return answer(_view(parts, caller, name))


@router.get("/channels/{name}/evidence", response_model=ChannelEvidence, responses=responses(ProblemKind.NOT_FOUND))
def get_evidence(name: ChannelName, caller: DevicesReader, parts: PartsOf) -> Response:
    """What the gate knows of the rollout's stage, and the channel's devices by release. Claims of devices."""
    return answer(parts.store.channel_evidence.of_channel(caller.tenant, name, time.time()))


@router.get("/channels/{name}/policy", response_model=RetunePolicy, responses=responses(ProblemKind.NOT_FOUND))
def get_policy(name: ChannelName, caller: DevicesReader, parts: PartsOf) -> Response:
    """Whether drift in the field opens jobs that tune records again, and with which budget."""
    return answer(parts.store.retunes.policy(caller.tenant, name))


@router.put("/channels/{name}/policy", response_model=RetunePolicy, responses=responses(ProblemKind.NOT_FOUND))
def set_policy(name: ChannelName, body: RetunePolicyBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Replace the retune policy of a channel; ``reason`` is for the audit log."""
    policy = RetunePolicy.model_validate(body.model_dump(exclude={"reason"}))
    return answer(parts.store.retunes.set_policy(actor_of(caller.token), name, policy, body.reason))


@router.post("/channels/{name}:pause", response_model=ChannelView, responses=_CHANGES)
def pause(name: ChannelName, body: ReasonBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Pause the rollout: devices stay with what they run, and no stage advances."""
    return _applied(parts, caller, name, RolloutVerb.PAUSE, body)


@router.post("/channels/{name}:resume", response_model=ChannelView, responses=_CHANGES)
def resume(name: ChannelName, body: ReasonBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Resume a paused or halted rollout in its stage, whose deadline begins again."""
    return _applied(parts, caller, name, RolloutVerb.RESUME, body)


@router.post("/channels/{name}:advance", response_model=ChannelView, responses=_CHANGES)
def advance(name: ChannelName, body: ReasonBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Advance to the next stage without the gate, or finish after the last."""
    return _applied(parts, caller, name, RolloutVerb.ADVANCE, body)


@router.post("/channels/{name}:roll-back", response_model=ChannelView, responses=_CHANGES)
def roll_back(name: ChannelName, body: ReasonBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Roll back: all devices run the previous release."""
    return _applied(parts, caller, name, RolloutVerb.ROLL_BACK, body)


@router.post("/channels/{name}:stop", response_model=ChannelView, responses=_CHANGES)
def stop(name: ChannelName, body: ReasonBody, caller: DevicesAdmin, parts: PartsOf) -> Response:
    """Stop in an emergency: no device of the channel runs a model until the rollout is resumed or rolled back."""
    return _applied(parts, caller, name, RolloutVerb.STOP, body)


def _applied(parts: Parts, caller: Caller, name: str, verb: RolloutVerb, body: ReasonBody) -> Response:
    parts.store.rollouts.apply(actor_of(caller.token), name, verb, body.reason)
    return answer(_view(parts, caller, name))


def _view(parts: Parts, caller: Caller, name: str) -> ChannelView:
    rollouts = parts.store.rollouts
    return channel_view(rollouts.document(caller.tenant, name), rollouts.latest(caller.tenant, name))
