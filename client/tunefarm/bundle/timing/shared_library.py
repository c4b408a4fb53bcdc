"""A bundle's shared library in this process (``tunefarm_bundle.h``)."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tunefarm.artifact.aligned_memory import aligned_copy, aligned_memory
from tunefarm.bundle.bundle_folder import WEIGHTS
from tunefarm.frontend.random_inputs import random_inputs
from tunefarm.frontend.weights_file import Array
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import RUNTIME_ABI
from tunefarm_schemas.tuning.bundle import BundleManifest

Memory = npt.NDArray[np.uint8]
_FIX: Final = "Link it for this host's C library, or omit the timing: --no-timing."


class _Interface(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("model", ctypes.c_void_p),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)),
        ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("start_threads", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)),
        ("release_workspaces", ctypes.CFUNCTYPE(None)),
    )


class SharedModel:
    """A loaded library with its weights, and inputs of the first test vector, or random ones if there is none.

    A call is one run of the model.
    """

    def __init__(self, library: str, folder: Path, manifest: BundleManifest) -> None:
        """Load ``library``, a path, and start its threads.

        Raises:
            BadInput: it cannot be loaded here.
        """
        self._interface = _loaded(library)
        self._interface.start_threads(manifest.num_cores)
        outputs = [_memory(_bytes_of(each.dtype) * each.elements) for each in manifest.entry.outputs]
        inputs = [_aligned(each) for each in _inputs(folder, manifest)]
        weights = _aligned((folder / WEIGHTS).read_bytes())
        self._memory = (weights, _memory(manifest.arena_bytes), inputs, outputs)
        self._arguments = (
            self._interface.model,
            *(each.ctypes.data for each in self._memory[:2]),
            _pointers(inputs),
            _pointers(outputs),
        )

    def __call__(self) -> None:
        """Run the model once. Raises BadInput if a kernel fails."""
        if self._interface.run(*self._arguments) != 0:
            problem = self._interface.last_error().decode(errors="replace")
            raise BadInput("model", f"the bundle does not run here: {problem}", _FIX)

    @property
    def outputs(self) -> list[bytes]:
        """What the last run computed."""
        return [each.tobytes() for each in self._memory[3]]


def _loaded(library: str) -> Any:
    try:
        function = ctypes.CDLL(library).tunefarm_bundle
    except (OSError, AttributeError) as error:
        raise BadInput("model", f"the bundle cannot be loaded here: {error}", _FIX) from error
    function.restype = ctypes.POINTER(_Interface)
    interface = function().contents
    if interface.abi_version != RUNTIME_ABI:
        raise BadInput("model", f"the bundle has the runtime ABI {interface.abi_version}, not {RUNTIME_ABI}.", _FIX)
    return interface


def _inputs(folder: Path, manifest: BundleManifest) -> list[bytes]:
    if manifest.vectors:
        return [(folder / name).read_bytes() for name in manifest.vectors[0].inputs]
    return [each.tobytes() for each in random_inputs(manifest.entry, 0)]


def _bytes_of(dtype: str) -> int:
    import ml_dtypes  # noqa: F401 - registers its types

    return np.dtype(dtype).itemsize


def _memory(size_bytes: int) -> Memory:
    """Zeros."""
    memory = aligned_memory(size_bytes)
    memory.fill(0)
    return memory


def _aligned(content: bytes) -> Memory:
    return aligned_copy(np.frombuffer(content, np.uint8))


def _pointers(many: Sequence[Array]) -> "ctypes.Array[ctypes.c_void_p]":
    return (ctypes.c_void_p * max(len(many), 1))(*(each.ctypes.data for each in many))
