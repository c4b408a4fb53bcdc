"""Repositories, bundles and keys for tests."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tunefarm.release.key_ring import KeyRing
from tunefarm.release.keys import make_key
from tunefarm.release.publishing import publish
from tunefarm.release.release_folder import ReleaseFolder
from tunefarm.release.roles import make_channel, make_repository
from tunefarm.release.signing import Signing
from tunefarm_schemas.edge.release import ChannelDocument


@dataclass
class Workshop:
    """A repository with its keys, and a clock that tests set."""

    place: Path
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    @property
    def folder(self) -> ReleaseFolder:
        return ReleaseFolder(self.place / "releases")

    def key(self, name: str) -> str:
        path = self.place / f"{name}.pem"
        if not path.exists():
            make_key(path)
        return str(path)

    def signing(self, *given: str) -> Signing:
        return Signing(self.folder, KeyRing.of(self.folder, [self.key(name) for name in given]), lambda: self.now)

    def later(self, **change: float) -> None:
        self.now += timedelta(**change)

    def begin(self, *channels: str) -> "Workshop":
        roots = [self.key("root"), self.key("root2")]
        make_repository(self.signing(), roots, [self.key("targets")], [self.key("online")], 2)
        for channel in channels:
            make_channel(self.signing(), channel, self.key(channel))
        return self

    def bundle(self, name: str, content: bytes = b"", **requires: object) -> Path:
        return write_bundle(self.place / name, content or name.encode() * 500, **requires)

    def publish(self, name: str, channel: str = "canary") -> ChannelDocument:
        return publish(self.signing(), [self.bundle(name)], channel=channel, name=name)


def write_bundle(folder: Path, content: bytes, **requires: object) -> Path:
    """A folder in the form of a bundle of the form library."""
    (folder / "vectors" / "0").mkdir(parents=True)
    (folder / "model.so").write_bytes(content)
    (folder / "weights.bin").write_bytes(b"\1" * 64)
    (folder / "vectors" / "0" / "input0.bin").write_bytes(b"\2" * 16)
    needs = {"architecture": "x86_64", "cpu_features": [], "device_class_id": None, "runtime_abi": 1} | requires
    manifest = {"name": "cnn", "weights_bytes": 64, "arena_bytes": 128, "requires": needs, "latency": None}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder
