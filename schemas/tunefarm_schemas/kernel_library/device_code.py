"""Modules embedded in the library of a GPU kernel, which TVM's loader builds from bytes."""

import struct
from typing import Final

from tunefarm_schemas.kernel_library.image import Image
from tunefarm_schemas.kernel_library.refused import require

_LIBRARY: Final = b"_lib"
_KINDS: Final = frozenset({_LIBRARY, b"cuda"})
"""The library itself, and code for the device. Other kinds are code for this process in unchecked formats."""
_MAX_MODULES: Final = 16
_MAX_KIND_BYTES: Final = 32


def require_device_code(image: Image, at: int) -> None:
    """Require only device code at ``at``, in the layout of TVM's ``ProcessLibraryBin``. Raises ``Refused``."""

    def number() -> int:
        nonlocal at
        (value,) = struct.unpack("<Q", image.read_constant(at, 8, "device code"))
        at += 8
        return int(value)

    end = number() + at
    image.read_constant(at, end - at, "device code")
    counts = []
    for _ in range(2):
        counts.append(number())
        require(counts[-1] <= _MAX_MODULES + 1, "its device code has too many modules")
        at += 8 * counts[-1]
    require(counts[0] > 0, "its device code has no modules")
    for _ in range(counts[0] - 1):
        size = number()
        require(0 < size <= _MAX_KIND_BYTES, "its device code is of an unknown kind")
        kind = image.read_constant(at, size, "device code")
        at += size
        require(kind in _KINDS, f"it embeds a module of the kind {kind.decode('ascii', errors='replace')!r}")
        if kind != _LIBRARY:
            at += number()
        require(at <= end, "its device code ends within a module")
