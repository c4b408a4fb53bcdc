"""Releases of bundles, and the channels that devices follow."""

from typing import Annotated, Literal

from pydantic import Field

from tunefarm_schemas.frozen import Frozen

CHANNEL_FORMAT = 1
RUNTIME_ABI = 1
"""The interface between a bundle's shared library and what loads it (``tunefarm_bundle.h``)."""

MAX_SEQUENCE = 1 << 53
"""What every reader of JSON represents exactly."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
RelativePath = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$", max_length=200)
]
"""A path below a folder: neither absolute nor with ``..``."""
UtcTime = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
Architecture = Literal["aarch64", "armv7", "riscv64", "x86_64", "wasm32", "cuda"]


class ReleaseFile(Frozen):
    """A file of a variant, addressed by its SHA-256 in ``files/`` of the repository."""

    path: RelativePath
    size_bytes: int = Field(ge=0)
    digest: Sha256


class FileDelta(Frozen):
    """A patch that makes the file ``to_digest`` of the file ``from_digest``; itself a file of the repository.

    A patch is a Zstandard frame that was compressed with the old file as its raw dictionary.
    """

    from_digest: Sha256
    to_digest: Sha256
    patch_digest: Sha256
    patch_bytes: int = Field(ge=0)


class ReleaseVariant(Frozen):
    """The bundle of a release for some devices.

    Attributes:
        architecture: of the machine code.
        cpu_features: what its instructions need, as the operating system names it (``asimddp``, ``avx512_vnni``);
            a device without one of them never gets this variant.
        device_class_id: of the only device class that it is for; None for any.
        runtime_abi: of the shared library.
        free_bytes: space that the device must have before it is installed, without what it already holds.
        memory_bytes: of weights and arena.
        latency_p50_s, latency_p95_s: of one run as measured for the manifest; None if nothing was measured.
        manifest: ``manifest.json`` of the bundle.
        files: all other files of the bundle.
        deltas: patches from files of earlier releases.
    """

    architecture: Architecture
    cpu_features: tuple[str, ...] = ()
    device_class_id: str | None = None
    runtime_abi: int = RUNTIME_ABI
    free_bytes: int = Field(ge=0)
    memory_bytes: int = Field(ge=0)
    latency_p50_s: float | None = Field(default=None, gt=0)
    latency_p95_s: float | None = Field(default=None, gt=0)
    manifest: ReleaseFile
    files: tuple[ReleaseFile, ...]
    deltas: tuple[FileDelta, ...] = ()


class Release(Frozen):
    """Bundles of one model, the best variant first: exact device class, then architecture, then generic."""

    name: Name
    model: str
    variants: tuple[ReleaseVariant, ...] = Field(min_length=1)


class GatePolicy(Frozen):
    """When a rollout goes on to its next stage.

    Attributes:
        stages_percent: parts of the fleet, by stable hash of the device; the last is 100.
        confidence: that field latency is not worse than the manifest's before a stage advances.
        tolerance: relative latency above the manifest's that still counts as not worse.
        min_devices: how many devices of a stage must have reported, or all of them if they are fewer.
        deadline_s: after this time in a stage, a device that has not reported counts as failed.
        max_failed_percent: of a stage's devices; above it, the rollout stops and the stage's devices roll back.
    """

    stages_percent: tuple[int, ...] = (1, 10, 50, 100)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    tolerance: float = Field(default=0.05, ge=0)
    min_devices: int = Field(default=5, ge=1)
    deadline_s: float = Field(default=86_400.0, gt=0)
    max_failed_percent: float = Field(default=5.0, ge=0, le=100)


class ChannelDocument(Frozen):
    """What devices of a channel may run; the target ``channels/NAME.json`` of the repository, signed by its role.

    Devices run ``current``, or ``previous`` while the service tells them to (a later stage, or a rollback): both are
    signed, so neither needs a signature at the moment of the decision. A device refuses a lower ``sequence`` than it
    has seen.
    """

    format: int = CHANNEL_FORMAT
    channel: Name
    sequence: int = Field(ge=1, le=MAX_SEQUENCE)
    issued: UtcTime
    expires: UtcTime
    current: Release
    previous: Release | None = None
    revoked: tuple[Name, ...] = ()
    """Names of releases that no device may run or return to."""
    revoked_below: int = Field(default=0, ge=0)
    """The lowest sequence of a release that small runners may run: they do not know which name came with which."""
    gate: GatePolicy = GatePolicy()
