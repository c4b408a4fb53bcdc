"""Bundles that a service builds."""

from typing import Literal

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.bundle import BundleManifest, BundleOrder

BundleState = Literal["queued", "running", "finished"]
BundleOutcome = Literal["succeeded", "failed"]


class BundleView(Frozen):
    """A bundle of a service.

    Attributes:
        bundle_id: its id.
        order: what was asked for.
        state, outcome: whether it was built; the outcome is null until it is finished.
        message: why it failed, or what its user should know.
        manifest: as in the bundle; null until it was built.
        content_digest: SHA-256 of the archive, which has all files of the bundle.
        content_bytes: size of the archive.
        created_at, finished_at: RFC 3339, UTC.
    """

    bundle_id: str
    order: BundleOrder
    state: BundleState
    outcome: BundleOutcome | None = None
    message: str = ""
    manifest: BundleManifest | None = None
    content_digest: str | None = None
    content_bytes: int | None = None
    created_at: str
    finished_at: str | None = None
