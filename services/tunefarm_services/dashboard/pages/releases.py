"""Channels with the rollouts of their releases, what devices report of them, and the audit log."""

import time
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tunefarm_schemas.token import Scope
from tunefarm_schemas.visible_text import visible_line
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.dashboard.session import read_action, require_viewer
from tunefarm_services.fleet.rollout import RolloutVerb, refusal
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.channel_views import channel_view, channel_views

CHANGES_ON_PAGE: Final = 50
MAX_REASON: Final = 300
_VERBS: Final = {each.value: each for each in RolloutVerb}


def show_channels(request: Request) -> Response:
    """All channels, devices by release, failures by reason, and the audit log."""
    viewer, store = require_viewer(request, Scope.DEVICES_READ), parts_of(request).store
    devices = store.edge_devices
    is_operator = Scope.DEVICES_ADMIN in viewer.scopes
    before = request.query_params.get("before", "")[:100].replace("\0", "") or None
    changes = store.fleet_audit.page(viewer.tenant, before, CHANGES_ON_PAGE + 1) if is_operator else []
    values = {
        "channels": channel_views(store.rollouts, viewer.tenant),
        "by_release": devices.counts(viewer.tenant, "running"),
        "by_failure": {name: n for name, n in devices.counts(viewer.tenant, "failure").items() if name},
        "drifting": devices.drifting(viewer.tenant),
        "silent": devices.silent(viewer.tenant, time.time()),
        "is_operator": is_operator,
        "changes": changes[:CHANGES_ON_PAGE],
        "before": before,
        "next_before": changes[CHANGES_ON_PAGE - 1].audit_id if len(changes) > CHANGES_ON_PAGE else None,
    }
    return page(request, "releases.html", values)


def show_channel(request: Request) -> Response:
    """One channel: its rollout, the gate's evidence, and what can be asked of it."""
    viewer, store = require_viewer(request, Scope.DEVICES_READ), parts_of(request).store
    name = request.path_params["channel"]
    evidence = store.channel_evidence.of_channel(viewer.tenant, name, time.time())
    document, rollout = store.rollouts.document(viewer.tenant, name), store.rollouts.latest(viewer.tenant, name)
    has_previous = document.previous is not None
    verbs = [verb.value for verb in RolloutVerb if not refusal(rollout, verb, has_previous=has_previous)]
    values = {
        "channel": channel_view(document, rollout),
        "version": rollout.version,
        "evidence": evidence,
        "latency": store.edge_reports.field_latency(viewer.tenant, rollout.release, [document]),
        "verbs": verbs if Scope.DEVICES_ADMIN in viewer.scopes else [],
        "max_reason": MAX_REASON,
    }
    return page(request, "channel.html", values)


async def ask_channel(request: Request) -> Response:
    """Pause, resume, advance, roll back or stop a rollout as it was seen, with a reason for the audit log."""
    viewer = require_viewer(request, Scope.DEVICES_READ, Scope.DEVICES_ADMIN)
    fields = await read_action(request)
    verb = _VERBS.get(request.path_params["action"])
    if verb is None:
        raise PageProblem(404, "There is no such action.")
    reason = visible_line(fields.get("reason", "").strip())
    if not 0 < len(reason) <= MAX_REASON:
        raise PageProblem(400, f"Write why, in at most {MAX_REASON} characters: it is kept in the audit log.")
    version = fields.get("version", "")
    if not (version.isascii() and version.isdigit() and len(version) < 10):
        raise PageProblem(400, "The form names no version of the rollout. Open its page again.")
    actor = Actor(viewer.tenant, viewer.token_id, time.time())
    name, rollouts = request.path_params["channel"], parts_of(request).store.rollouts
    await to_thread.run_sync(lambda: rollouts.apply(actor, name, verb, reason, version=int(version)))
    return RedirectResponse(f"{request.scope['root_path']}/releases/{name}", 303, headers=HEADERS)


ROUTES: Final = (
    Route("/releases", show_channels, methods=["GET"]),
    Route("/releases/{channel}", show_channel, methods=["GET"]),
    Route("/releases/{channel}/{action}", ask_channel, methods=["POST"]),
)
