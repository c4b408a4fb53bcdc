"""The records that a release's bundles were built with, as their manifests name them."""

from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from tunefarm_schemas.edge.release import ReleaseFile
from tunefarm_services.store.store import Store

_LARGEST_BYTES: Final = 8 << 20
"""Manifests hold traces; a larger one is not read."""
_MOST: Final = 1000


class _ManifestPart(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _NamedRecord(_ManifestPart):
    record_id: str


class _NamedRecords(_ManifestPart):
    records: tuple[_NamedRecord, ...] = ()


def record_ids_of(store: Store, tenant: str, manifest: ReleaseFile) -> frozenset[str]:
    """The ids of the records that a manifest names. Claims of its publisher: none of them need exist.

    Empty for a manifest that is not of this form. Raises BlobMissing, BlobDamaged.
    """
    if manifest.size_bytes > _LARGEST_BYTES:
        return frozenset()
    content = b"".join(store.releases.read(tenant, manifest.digest, 0, manifest.size_bytes))
    try:
        named = _NamedRecords.model_validate_json(content).records
    except ValidationError:
        return frozenset()
    return frozenset(each.record_id for each in named[:_MOST])
