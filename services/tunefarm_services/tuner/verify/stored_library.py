"""Checks of stored and exported libraries before they are delivered."""

from collections.abc import Collection
from typing import Final

import structlog

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.kernel_library.check import refusal_of
from tunefarm_schemas.kernel_library.of_target import rules_of
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.measurement import Exported, ExportResult, Failed
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store.records.artifact_repository import ArtifactRepository
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing

_CALLEES: Final = " Where the operator allows it, TUNEFARM_CALLEES names the function."

log = structlog.get_logger()


def usable_artifact(
    artifacts: ArtifactRepository, record: TuningRecord, target: Target, callees: Collection[str] = ()
) -> ArtifactManifest | None:
    """The newest artifact of ``record`` with an intact library that passes the checks; None if it must be rebuilt.

    Libraries of earlier versions fail the checks: they were linked with constructors.
    """
    for manifest in artifacts.newest_first(record.tenant, record_id=record.record_id):
        reason = _fault_of(artifacts, record.tenant, manifest, target, callees)
        if reason is None:
            return manifest
        log.warning(
            "a stored library cannot be used; it is built again from its record",
            artifact_id=manifest.artifact_id,
            record_id=record.record_id,
            reason=reason,
        )
    return None


def checked_export(exported: ExportResult, target: Target, callees: Collection[str]) -> ExportResult:
    """``exported``, or a failure if the worker's library does not pass the checks."""
    if not isinstance(exported, Exported):
        return exported
    refusal = refusal_of(exported.library, rules_of(target.canonical, callees))
    if refusal is None:
        return exported
    hint = _CALLEES if refusal.startswith("it calls") else ""
    message = f"The library that the worker sent is refused: {refusal}.{hint}"[:4000]
    return Failed(failure=TrialFailure(reason=FailureReason.BUILD_ERROR, message=message))


def _fault_of(
    artifacts: ArtifactRepository, tenant: str, manifest: ArtifactManifest, target: Target, callees: Collection[str]
) -> str | None:
    try:
        _, library = artifacts.get(tenant, manifest.artifact_id)
    except (BlobMissing, BlobDamaged) as error:
        return str(error)
    return refusal_of(library, rules_of(target.canonical, callees))
