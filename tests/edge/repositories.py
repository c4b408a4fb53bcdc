"""Repositories that are really signed: keys, roles and metadata by python-tuf, documents by our types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import zstandard
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import (
    DelegatedRole,
    Delegations,
    Metadata,
    MetaFile,
    Root,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)

from tunefarm_edge.state.floor import write_time
from tunefarm_edge.trust.device_facts import architecture
from tunefarm_schemas.edge.release import ChannelDocument, FileDelta, Release, ReleaseFile, ReleaseVariant
from tunefarm_schemas.frozen import digest

ROLES = ("root", "timestamp", "snapshot", "targets", "channel-stable")


@dataclass
class Repository:
    """A repository in ``folder``. ``publish`` writes a new version of all but the root metadata."""

    folder: Path
    signers: dict[str, CryptoSigner] = field(
        default_factory=lambda: {each: CryptoSigner.generate_ed25519() for each in ROLES}
    )
    version: int = 0

    def __post_init__(self) -> None:
        for name in ("metadata", "targets/channels", "files"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        root = Root(expires=datetime.now(UTC) + timedelta(days=365))
        for role in ROLES[:4]:
            root.add_key(self.signers[role].public_key, role)
        self._write(Metadata(root), "root", "1.root.json")

    @property
    def root(self) -> Path:
        return self.folder / "metadata" / "1.root.json"

    def _write(self, metadata: Metadata, role: str, name: str) -> None:
        metadata.sign(self.signers[role])
        metadata.to_file(str(self.folder / "metadata" / name))

    def store(self, content: bytes) -> str:
        (self.folder / "files" / digest(content)).write_bytes(content)
        return digest(content)

    def variant(self, files: Mapping[str, bytes], deltas: Sequence[FileDelta] = (), **more: object) -> ReleaseVariant:
        """Store the files of a bundle, and describe them."""
        described = {
            path: ReleaseFile(path=path, size_bytes=len(content), digest=self.store(content))
            for path, content in files.items()
        }
        manifest = described.pop("manifest.json")
        values = {"architecture": architecture(), "free_bytes": 0, "memory_bytes": 0} | more
        return ReleaseVariant(manifest=manifest, files=tuple(described.values()), deltas=tuple(deltas), **values)

    def delta(self, old: bytes, new: bytes) -> FileDelta:
        dictionary = zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        patch = zstandard.ZstdCompressor(level=19, dict_data=dictionary).compress(new)
        return FileDelta(
            from_digest=digest(old), to_digest=digest(new), patch_digest=self.store(patch), patch_bytes=len(patch)
        )

    def release(self, name: str, files: Mapping[str, bytes], **more: object) -> Release:
        return Release(name=name, model="scale", variants=(self.variant(files, **more),))

    def publish(
        self,
        sequence: int,
        current: Release,
        *,
        age: timedelta = timedelta(),
        lasts: timedelta = timedelta(days=7),
        **more: object,
    ) -> ChannelDocument:
        """Publish a document that was issued ``age`` ago; it and its metadata last from then on."""
        issued = datetime.now(UTC) - age
        values = {"channel": "stable", "issued": write_time(issued), "expires": write_time(issued + lasts)} | more
        document = ChannelDocument(sequence=sequence, current=current, **values)
        self.publish_bytes(document.model_dump_json().encode(), issued + lasts)
        return document

    def publish_bytes(self, document: bytes, expires: datetime) -> None:
        self.version += 1
        target = TargetFile.from_data("channels/stable.json", document, ["sha256"])
        path = self.folder / "targets/channels" / f"{target.hashes['sha256']}.stable.json"
        path.write_bytes(document)
        channel = Targets(self.version, expires=expires, targets={target.path: target})
        self._write(Metadata(channel), "channel-stable", f"{self.version}.channel-stable.json")
        key = self.signers["channel-stable"].public_key
        role = DelegatedRole("channel-stable", [key.keyid], 1, True, paths=["channels/stable.*"])
        targets = Targets(self.version, expires=expires, delegations=Delegations({key.keyid: key}, {role.name: role}))
        self._write(Metadata(targets), "targets", f"{self.version}.targets.json")
        meta = {"targets.json": MetaFile(self.version), "channel-stable.json": MetaFile(self.version)}
        self._write(
            Metadata(Snapshot(self.version, expires=expires, meta=meta)), "snapshot", f"{self.version}.snapshot.json"
        )
        timestamp = Timestamp(self.version, expires=expires, snapshot_meta=MetaFile(self.version))
        self._write(Metadata(timestamp), "timestamp", "timestamp.json")
