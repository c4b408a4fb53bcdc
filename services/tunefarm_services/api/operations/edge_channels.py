"""Polls of devices, and who acts on a fleet."""

import random
import time
from typing import Final

from tunefarm_schemas.edge.device import EdgeAdvice, EdgePoll
from tunefarm_schemas.token import Token
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.fleet.advice import chosen, poll_after_s
from tunefarm_services.store import NotFound
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.polling_repository import PollingDevice, PollingRepository

_DRAW: Final = random.SystemRandom()
_MAX_REASON: Final = 500


def actor_of(token: Token) -> Actor:
    """The caller as the audit log names it."""
    return Actor(token.tenant, token.token_id, time.time())


def polling_device(polling: PollingRepository, token: Token) -> PollingDevice:
    """The device whose token this is. Raises ApiProblem if it is not the token of a device."""
    try:
        return polling.of_token(token.token_id)
    except NotFound as error:
        detail = "The token is not of an enrolled device. Enrol the device: POST /v1/edge/enrolments."
        raise ApiProblem(ProblemKind.FORBIDDEN, detail) from error


def advice_for(parts: Parts, token: Token, poll: EdgePoll, now_s: float) -> EdgeAdvice:
    """Store what a device says, and answer what it should run."""
    rollouts = parts.store.rollouts
    known = polling_device(parts.store.polling, token)
    device = known.device
    parts.polls.add(token.tenant, device, poll, now_s)
    again_s = poll_after_s(parts.settings.edge_poll_s, _DRAW)
    if known.followed is None:
        reason = f"nothing is published in channel {device.channel}"
        return EdgeAdvice(
            channel=device.channel, action="stay", release=poll.running, poll_after_s=again_s, reason=reason
        )
    document, rollout = known.followed
    if rollouts.evaluate(token.tenant, device.channel, now_s, known=rollout):
        rollout = rollouts.latest(token.tenant, device.channel)
    action, release, reason = chosen(document, rollout, device.edge_device_id, poll.facts, poll.running)
    return EdgeAdvice(
        channel=device.channel, action=action, release=release, poll_after_s=again_s, reason=reason[:_MAX_REASON]
    )
