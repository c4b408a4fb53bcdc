"""Whether a publication may follow what is stored: the checks of a TUF client, and those of channel documents."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError
from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import Signature
from tuf.api.exceptions import EqualVersionNumberError, ExpiredMetadataError, LengthOrHashMismatchError, RepositoryError
from tuf.api.metadata import DelegatedRole, Metadata, Targets
from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet
from tuf.ngclient.config import EnvelopeType

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_schemas.edge.runner_text import MAX_SIGNATURES, SIGNATURE_BYTES, runner_text, utc_text
from tunefarm_services.store.releases.release_repository import AcceptedPublication, StoredReleases, target_name

CHANNEL_ROLE: Final = "channel-"


@dataclass
class ReleaseJudge:
    """Judges one publication. It is called in the transaction that stores what it accepts.

    Attributes:
        metadata: proposed files, by role and version.
        timestamp: the proposed one.
        targets: proposed targets, by their paths below ``targets/``.
        now: expiry is compared with it.
    """

    metadata: Mapping[tuple[str, int], bytes]
    timestamp: bytes
    targets: Mapping[str, bytes]
    now: datetime
    _new: dict[tuple[str, int], bytes] = field(default_factory=dict)
    _new_targets: dict[str, bytes] = field(default_factory=dict)
    _changes: list[str] = field(default_factory=list)
    _documents: list[ChannelDocument] = field(default_factory=list)

    def __call__(self, stored: StoredReleases) -> AcceptedPublication:
        """Accept the publication. Raises BadInput with the reason that a device would have."""
        self._new, self._new_targets, self._changes, self._documents = {}, {}, [], []
        try:
            trusted = self._root(stored)
            self._timestamp_and_snapshot(stored, trusted)
            self._roles(stored, trusted)
        except (RepositoryError, LengthOrHashMismatchError, ValueError) as error:
            raise _refused(str(error)) from error
        return AcceptedPublication(
            self._new,
            self._new_targets,
            trusted.root.version,
            trusted.timestamp.version,
            ", ".join(self._changes)[:4000],
            tuple(self._documents),
        )

    def _root(self, stored: StoredReleases) -> TrustedMetadataSet:
        first = stored.metadata("root")
        if first is None:
            first = self._found(stored, "root", 1)
        trusted = TrustedMetadataSet(first, EnvelopeType.METADATA)
        trusted.reference_time = self.now
        for (role, version), content in sorted(self.metadata.items()):
            if role != "root":
                continue
            if version > trusted.root.version:
                trusted.update_root(content)
                self._note("root", version, content)
            elif content != (stored.metadata("root", version) or self._new.get(("root", version))):
                raise _refused(f"another root of version {version} is stored")
        if not trusted.root.consistent_snapshot:
            raise _refused("the root does not ask for consistent snapshots")
        return trusted

    def _timestamp_and_snapshot(self, stored: StoredReleases, trusted: TrustedMetadataSet) -> None:
        old = stored.metadata("timestamp")
        old_snapshot = stored.metadata("snapshot")
        if old is not None:
            with suppress(RepositoryError):
                # An expired one still protects from older versions. One of a revoked key does not, as TUF says.
                trusted.update_timestamp(old)
        try:
            trusted.update_timestamp(self.timestamp)
            self._note("timestamp", trusted.timestamp.version, self.timestamp)
        except EqualVersionNumberError:
            if self.timestamp != old:
                raise _refused(f"another timestamp of version {trusted.timestamp.version} is stored") from None
        if old_snapshot is not None:
            with suppress(RepositoryError):
                trusted.update_snapshot(old_snapshot, trusted=True)
        version = trusted.timestamp.snapshot_meta.version
        trusted.update_snapshot(self._found(stored, "snapshot", version))

    def _roles(self, stored: StoredReleases, trusted: TrustedMetadataSet) -> None:
        versions = {name.removesuffix(".json"): meta.version for name, meta in trusted.snapshot.meta.items()}
        old_keys = _channel_keys(stored.metadata("targets"))
        targets = trusted.update_targets(self._found(stored, "targets", versions.pop("targets", 0)))
        if targets.targets:
            raise _refused("the role targets names files itself; only channels do")
        delegations = {} if targets.delegations is None else targets.delegations.roles or {}
        if set(versions) != set(delegations):
            wrong = ", ".join(sorted(set(versions) ^ set(delegations)))
            raise _refused(f"snapshot and delegations differ in {wrong}")
        for role, version in sorted(versions.items()):
            is_known = stored.metadata(role, version) is not None
            is_replaced = old_keys.get(role, frozenset()).isdisjoint(delegations[role].keyids)
            before = None if is_replaced else stored.metadata(role)
            with suppress(*([ExpiredMetadataError] if is_known else [])):
                trusted.update_delegated_targets(self._found(stored, role, version), role, "targets")
            if not is_known:
                signed = trusted[role]
                assert isinstance(signed, Targets)
                self._channel(stored, delegations[role], targets, signed, before)

    def _channel(
        self, stored: StoredReleases, role: DelegatedRole, owner: Targets, signed: Targets, before: bytes | None
    ) -> None:
        channel = role.name.removeprefix(CHANNEL_ROLE)
        expected = {f"channels/{channel}.{ending}" for ending in ("json", "runner", "sig")}
        if not role.name.startswith(CHANNEL_ROLE) or set(signed.targets) not in (expected, set()):
            raise _refused(f"{role.name} must name its document, its text and its signature, and nothing else")
        contents = {}
        for path, target in signed.targets.items():
            if not role.is_delegated_path(path):
                raise _refused(f"{role.name} may not sign {path}")
            contents[path] = content = self._target(stored, path, target.hashes.get("sha256", ""))
            target.verify_length_and_hashes(content)
        if contents:
            document = _document(contents[f"channels/{channel}.json"])
            self._compare(stored, channel, document, before)
            runner, signatures = contents[f"channels/{channel}.runner"], contents[f"channels/{channel}.sig"]
            if runner != runner_text(document):
                raise _refused(f"the text for runners of {channel} differs from its document")
            _require_signature(owner, role, runner, signatures)
            self._documents.append(document)
            self._changes[-1] += f" ({document.current.name}, sequence {document.sequence})"

    def _compare(self, stored: StoredReleases, channel: str, document: ChannelDocument, before: bytes | None) -> None:
        old = None if before is None else _old_document(stored, channel, before)
        if document.channel != channel:
            raise _refused(f"the document of {channel} is that of {document.channel}")
        if old is not None and document.sequence <= old.sequence and document != old:
            raise _refused(f"the sequence {document.sequence} of {channel} is not above {old.sequence}")
        if document.expires <= utc_text(self.now):
            raise _refused(f"the document of {channel} has expired")
        for digest, size_bytes in _files(document).items():
            if stored.size_of_file(digest) != size_bytes:
                raise _refused(f"the file {digest}, which {channel} names, was not sent with {size_bytes} bytes")

    def _found(self, stored: StoredReleases, role: str, version: int) -> bytes:
        known = stored.metadata(role, version)
        if known is not None:
            return known
        proposed = self.metadata.get((role, version))
        if proposed is None:
            raise _refused(f"{version}.{role}.json is missing")
        self._note(role, version, proposed)
        return proposed

    def _note(self, role: str, version: int, content: bytes) -> None:
        self._new[role, version] = content
        self._changes.append(f"{role} {version}")

    def _target(self, stored: StoredReleases, path: str, digest: str) -> bytes:
        folder, _, name = path.rpartition("/")
        place = f"{folder}/{digest}.{name}"
        content = stored.target(place) or self.targets.get(place)
        if content is None or target_name(path, content) != place:
            raise _refused(f"the target {place} is missing or has other content")
        self._new_targets[place] = content
        return content


def _document(content: bytes) -> ChannelDocument:
    try:
        return ChannelDocument.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise _refused(f"the channel document is wrong: {first['loc']}: {first['msg']}") from error


def _old_document(stored: StoredReleases, channel: str, content: bytes) -> ChannelDocument | None:
    path = f"channels/{channel}.json"
    metadata: Metadata[Targets] = Metadata.from_bytes(content)
    target = metadata.signed.targets.get(path)
    if target is None:
        return None
    found = stored.target(f"channels/{target.hashes['sha256']}.{channel}.json")
    return None if found is None else ChannelDocument.model_validate_json(found)


def _channel_keys(targets: bytes | None) -> dict[str, frozenset[str]]:
    """The ids of the keys of each channel's role. A channel whose keys were all replaced begins again.

    A thief of its key may have published any sequence.
    """
    if targets is None:
        return {}
    metadata: Metadata[Targets] = Metadata.from_bytes(targets)
    delegations = metadata.signed.delegations
    roles = {} if delegations is None else delegations.roles or {}
    return {name: frozenset(role.keyids) for name, role in roles.items()}


def _files(document: ChannelDocument) -> dict[str, int]:
    """The sizes of all files that a document names, by their digests."""
    found: dict[str, int] = {}
    for release in (document.current, document.previous):
        for variant in () if release is None else release.variants:
            found |= {file.digest: file.size_bytes for file in (variant.manifest, *variant.files)}
            found |= {delta.patch_digest: delta.patch_bytes for delta in variant.deltas}
    return found


def _require_signature(owner: Targets, role: DelegatedRole, content: bytes, signatures: bytes) -> None:
    """Require the signatures of as many keys as the role needs. They may be followed by those of an older text."""
    if len(signatures) > MAX_SIGNATURES * SIGNATURE_BYTES:
        raise _refused(f"the text for runners of {role.name} has more than {MAX_SIGNATURES} signatures")
    found = set()
    for keyid in role.keyids:
        for at in range(0, len(signatures), SIGNATURE_BYTES):
            with suppress(UnverifiedSignatureError):
                signature = Signature(keyid, signatures[at : at + SIGNATURE_BYTES].hex())
                owner.get_key(keyid).verify_signature(signature, content)
                found.add(keyid)
    if len(found) < role.threshold:
        raise _refused(f"the signature of the text for runners of {role.name} is wrong")


def _refused(reason: str) -> BadInput:
    return BadInput("metadata", f"{reason}.", "Check the repository: tunefarm release check")
