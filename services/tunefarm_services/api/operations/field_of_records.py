"""Records beside what devices report of the releases that were built with them."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from tunefarm_schemas.edge.release import ChannelDocument, Release
from tunefarm_schemas.views.fleet import ReleaseInField
from tunefarm_services.releases.manifest_records import record_ids_of
from tunefarm_services.store import Store


def releases_of(store: Store, tenant: str, record_ids: AbstractSet[str]) -> list[ReleaseInField]:
    """The releases of all channels whose bundles have schedules of these records, by channel."""
    documents = store.rollouts.documents(tenant) if record_ids else []
    return [
        ReleaseInField(
            channel=document.channel,
            release=release.name,
            record_ids=tuple(sorted(named)),
            field=store.edge_reports.field_latency(tenant, release.name, [document]),
        )
        for document, release in _releases(documents)
        if (named := record_ids & _named(store, tenant, release))
    ]


def _releases(documents: list[ChannelDocument]) -> Iterator[tuple[ChannelDocument, Release]]:
    for document in documents:
        for release in (document.current, document.previous):
            if release is not None:
                yield document, release


def _named(store: Store, tenant: str, release: Release) -> frozenset[str]:
    manifests = {variant.manifest.digest: variant.manifest for variant in release.variants}
    return frozenset().union(*(record_ids_of(store, tenant, each) for each in manifests.values()))
