"""Polls of devices, and channels as their owners see them."""

import random
import time
from typing import Final

from tunefarm_schemas.edge.device import EdgeAdvice, EdgePoll
from tunefarm_schemas.token import Token
from tunefarm_schemas.views.fleet import EdgeDeviceView
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.fleet.advice import chosen, poll_after_s
from tunefarm_services.store import NotFound, Store
from tunefarm_services.store.fleet.audit_repository import Actor

_DRAW: Final = random.SystemRandom()
_MAX_REASON: Final = 500


def actor_of(token: Token) -> Actor:
    """The caller as the audit log names it."""
    return Actor(token.tenant, token.token_id, time.time())


def device_of(store: Store, token: Token) -> EdgeDeviceView:
    """The device whose token this is. Raises ApiProblem for a token of the right scope that is no device's."""
    try:
        return store.edge_devices.of_token(token.token_id)
    except NotFound as error:
        detail = "The token is not of an enrolled device. Enrol the device: POST /v1/edge/enrolments."
        raise ApiProblem(ProblemKind.FORBIDDEN, detail) from error


def advice_for(store: Store, token: Token, poll: EdgePoll, interval_s: float, now_s: float) -> EdgeAdvice:
    """Store what a device says, and answer what it should run."""
    device = device_of(store, token)
    store.edge_devices.polled(token.tenant, device, poll, now_s)
    again_s = poll_after_s(interval_s, _DRAW)
    followed = store.rollouts.followed(token.tenant, device.channel)
    if followed is None:
        reason = f"nothing is published in channel {device.channel}"
        return EdgeAdvice(
            channel=device.channel, action="stay", release=poll.running, poll_after_s=again_s, reason=reason
        )
    document, rollout = followed
    if store.rollouts.evaluate(token.tenant, device.channel, now_s, known=rollout):
        rollout = store.rollouts.latest(token.tenant, device.channel)
    action, release, reason = chosen(document, rollout, device.edge_device_id, poll.facts, poll.running)
    return EdgeAdvice(
        channel=device.channel, action=action, release=release, poll_after_s=again_s, reason=reason[:_MAX_REASON]
    )
