"""Channels as their owners see them."""

from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_schemas.views.fleet import ChannelView
from tunefarm_services.fleet.rollout import Rollout, RolloutState
from tunefarm_services.store.fleet.audit_repository import time_text
from tunefarm_services.store.fleet.rollout_repository import RolloutRepository


def channel_view(document: ChannelDocument, rollout: Rollout) -> ChannelView:
    """A channel with its rollout."""
    stages = document.gate.stages_percent
    is_everywhere = rollout.state is RolloutState.FINISHED
    return ChannelView(
        channel=document.channel,
        sequence=document.sequence,
        expires_at=document.expires,
        current=document.current.name,
        previous=None if document.previous is None else document.previous.name,
        revoked=document.revoked,
        gate=document.gate,
        state=rollout.state.value,
        stage_percent=100 if is_everywhere else stages[min(rollout.stage, len(stages) - 1)],
        reason=rollout.reason,
        began_at=time_text(rollout.began_s),
        stage_began_at=time_text(rollout.stage_began_s),
    )


def channel_views(rollouts: RolloutRepository, tenant: str) -> list[ChannelView]:
    """All channels of a tenant with their rollouts, by name."""
    documents = rollouts.documents(tenant)
    return [channel_view(document, rollouts.latest(tenant, document.channel)) for document in documents]
