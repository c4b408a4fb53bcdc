"""TUF's client over a source of releases, with the settings that every device uses."""

from datetime import datetime
from pathlib import Path

from tuf.ngclient.updater import Updater

from tunefarm_edge.trust.source import ReleaseSource


def metadata_client(
    source: ReleaseSource, metadata_folder: Path, target_folder: Path, pinned_root: bytes, valid_at: datetime
) -> Updater:
    """A client for one update.

    Args:
        source: the repository.
        metadata_folder: where verified metadata are kept from one update to the next.
        target_folder: where targets are downloaded to.
        pinned_root: the root metadata that all trust starts from.
        valid_at: the time at which metadata must not have expired.
    """
    updater = Updater(
        metadata_dir=str(metadata_folder),
        metadata_base_url=f"{source.base}metadata/",
        target_dir=str(target_folder),
        target_base_url=f"{source.base}targets/",
        fetcher=source.fetcher,
        bootstrap=pinned_root,
    )
    updater._trusted_set.reference_time = valid_at  # noqa: SLF001 - ngclient has no setting for it
    return updater


def keys_of(updater: Updater, target_path: str) -> frozenset[str]:
    """The ids of the keys that may sign a target, once it was looked up."""
    delegations = updater._trusted_set.targets.delegations  # noqa: SLF001 - ngclient does not say who signed a target
    if delegations is None or delegations.roles is None:
        return frozenset()
    roles = [name for name, _ in delegations.get_roles_for_target(target_path)]
    return frozenset(keyid for role in roles for keyid in delegations.roles[role].keyids)
