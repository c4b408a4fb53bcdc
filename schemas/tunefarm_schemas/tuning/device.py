"""Device classes and devices."""

from functools import cached_property

from tunefarm_schemas.frozen import Frozen, digest
from tunefarm_schemas.roofline import DevicePeaks


class ReferenceKernelTimes(Frozen):
    """Latencies in seconds of the three reference kernels on one device."""

    compute_s: float
    bandwidth_s: float
    launch_s: float


class DeviceClass(Frozen):
    """Devices that produce comparable timings.

    The buckets are powers of a coarse ratio of the three reference kernels' latencies, because virtual machines hide
    the differences that the other fields describe.
    """

    kind: str
    vendor: str
    family: str
    model: str
    stepping: str
    name: str
    isa_flags_digest: str
    caches_bytes: tuple[int, ...]
    cores: int
    compute_bucket: int
    bandwidth_bucket: int
    launch_bucket: int

    @cached_property
    def device_class_id(self) -> str:
        """Digest of every field."""
        return digest(self.model_dump_json())


class Device(Frozen):
    """A device of a device class. ``fingerprint`` identifies its host across restarts of this software."""

    fingerprint: str
    host_name: str
    device_class: DeviceClass
    reference: ReferenceKernelTimes
    peaks: DevicePeaks | None = None
    """None if they were not measured: on cards and boards, and by earlier versions."""


class Environment(Frozen):
    """Circumstances of a measurement that are not part of the device class."""

    governor: str = "unknown"
    microcode: str = "unknown"
    hypervisor: str = "unknown"
    load_average: float = 0.0


class Protocol(Frozen):
    """A named, versioned method of timing; not a repeat count."""

    name: str
    version: int
    cold_cache: bool = False

    @property
    def protocol_id(self) -> str:
        """Name and version in one word."""
        return f"{self.name}/{self.version}"


HOT_CACHE = Protocol(name="cpu-hot-cache", version=1)
COLD_CACHE = Protocol(name="cpu-cold-cache", version=2, cold_cache=True)
"""Version 1 included the overhead of a call from Python, which was tens of microseconds in fresh processes."""
_FORMER_COLD_CACHE = Protocol(name="cpu-cold-cache", version=1, cold_cache=True)
PROTOCOLS = {protocol.protocol_id: protocol for protocol in (HOT_CACHE, COLD_CACHE, _FORMER_COLD_CACHE)}
"""The protocols that records, artifacts and jobs may name."""
