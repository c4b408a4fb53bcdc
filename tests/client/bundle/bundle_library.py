"""Loads the shared library of a bundle as a program in C does, and runs a test vector."""

import ctypes
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tunefarm_schemas.tuning.bundle import BundleManifest

Bytes = npt.NDArray[np.uint8]


class Bundle(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("model", ctypes.c_void_p),
        ("run", ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)),
        ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("start_threads", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)),
        ("release_workspaces", ctypes.CFUNCTYPE(None)),
    )


def loaded(library: Path) -> Bundle:
    function = ctypes.CDLL(str(library)).tunefarm_bundle
    function.restype = ctypes.POINTER(Bundle)
    found: Bundle = function().contents
    return found


def computed(folder: Path, manifest: BundleManifest, weights: bytes) -> list[npt.NDArray[np.generic]]:
    """The outputs for the first vector's inputs."""
    bundle, vector = loaded(folder / "model.so"), manifest.vectors[0]
    inputs = [aligned((folder / name).read_bytes()) for name in vector.inputs]
    outputs = [aligned(bytes((folder / name).stat().st_size)) for name in vector.outputs]
    given, arena = aligned(weights), aligned(bytes(manifest.arena_bytes))
    status = bundle.run(bundle.model, address(given), address(arena), pointers(inputs), pointers(outputs))
    assert status == 0, bundle.last_error()
    bundle.release_workspaces()
    entries = manifest.entry.outputs
    return [each.view(entry.dtype).copy() for each, entry in zip(outputs, entries, strict=True)]


def aligned(content: bytes) -> Bytes:
    memory = np.zeros(len(content) + 64, np.uint8)
    at = -memory.ctypes.data % 64
    memory[at : at + len(content)] = np.frombuffer(content, np.uint8)
    return memory[at : at + len(content)]


def address(memory: Bytes) -> int:
    return int(memory.ctypes.data)


def pointers(many: list[Bytes]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(many))(*(address(each) for each in many))
