"""Channels and devices for tests of the fleet."""

from tunefarm_schemas.edge.device import EdgeFacts
from tunefarm_schemas.edge.release import ChannelDocument, GatePolicy, Release, ReleaseFile, ReleaseVariant
from tunefarm_schemas.frozen import digest

FACTS = EdgeFacts(
    architecture="aarch64",
    cpu_features=("asimd", "asimddp"),
    agent_version="0.1.0",
    runtime_abi=1,
    free_bytes=10_000_000,
)


def variant(**changes: object) -> ReleaseVariant:
    given: dict[str, object] = {
        "architecture": "aarch64",
        "cpu_features": ("asimd",),
        "free_bytes": 1_000_000,
        "memory_bytes": 500_000,
        "latency_p50_s": 0.001,
        "latency_p95_s": 0.0012,
        "manifest": ReleaseFile(path="manifest.json", size_bytes=9, digest=digest("m")),
        "files": (),
    }
    return ReleaseVariant.model_validate(given | changes)


def release(name: str = "cnn-2", *variants: ReleaseVariant) -> Release:
    return Release(name=name, model="cnn", variants=variants or (variant(),))


def document(sequence: int = 1, current: Release | None = None, **changes: object) -> ChannelDocument:
    given: dict[str, object] = {
        "channel": "stable",
        "sequence": sequence,
        "issued": "2026-07-01T12:00:00Z",
        "expires": "2026-10-01T12:00:00Z",
        "current": current or release(),
        "previous": release("cnn-1"),
        "gate": GatePolicy(),
    }
    return ChannelDocument.model_validate(given | changes)
