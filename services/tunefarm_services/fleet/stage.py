"""Which devices belong to a stage of a rollout."""

import hashlib
import math
from collections.abc import Iterable
from typing import Final

ALL: Final = 100.0
"""The cutoff that every device is below."""


def device_number(edge_device_id: str, release: str) -> float:
    """A number in [0, 100) that depends on the device and the release alone.

    A device that comes early in one release comes at another place in the next.
    """
    hashed = hashlib.sha256(f"{edge_device_id}\0{release}".encode()).digest()
    # 53 bits are exact in a double, so that the number never rounds up to 100.
    return (int.from_bytes(hashed[:8]) >> 11) / (1 << 53) * ALL


def cutoff(numbers: Iterable[float], percent: int) -> float:
    """The cutoff below which exactly ``percent`` of ``numbers`` lie, rounded up to whole devices.

    A fixed cutoff of ``percent`` itself would give that share only on average.
    """
    if percent >= ALL:
        return ALL
    ordered = sorted(numbers)
    included = math.ceil(len(ordered) * percent / ALL)
    return ordered[included] if included < len(ordered) else ALL
