"""Calls the shared library of a bundle, as ``tunefarm_bundle.h`` declares it."""

import ctypes
from pathlib import Path
from typing import Final

RUNTIME_ABI: Final = 1
"""That of ``tunefarm_schemas.edge.release``, repeated so that programs that run models need not import pydantic."""


class LoadFailed(Exception):
    """A release cannot be loaded here."""


class RunFailed(Exception):
    """A model's run reported an error."""


class _ModelHead(ctypes.Structure):
    """The first members of ``TunefarmModel``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("weights_bytes", ctypes.c_uint64),
        ("arena_bytes", ctypes.c_uint64),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
    )


_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(_ModelHead), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class _Bundle(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("model", ctypes.POINTER(_ModelHead)),
        ("run", _RUN),
        ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("start_threads", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)),
        ("release_workspaces", ctypes.CFUNCTYPE(None)),
    )


class _Table(ctypes.Structure):
    """What follows in bundles with a table of entries."""

    _fields_ = (("bundle", _Bundle), ("count", ctypes.c_int32), ("models", ctypes.POINTER(ctypes.POINTER(_ModelHead))))


class BundleLibrary:
    """One entry of a loaded ``model.so``. It is never unloaded: its threads may be running.

    Args:
        path: of the library.
        position: of the entry in the library's table.
        has_table: whether the library has one. Those without have a single entry.

    Raises:
        LoadFailed: it cannot be loaded, has another ABI, or no entry at ``position``.
    """

    def __init__(self, path: Path, position: int = 0, *, has_table: bool = False) -> None:
        try:
            self._library = ctypes.CDLL(str(path))
            entry = self._library.tunefarm_bundle
        except (OSError, AttributeError) as error:
            raise LoadFailed(f"{path.name} cannot be loaded: {error}") from error
        entry.restype, entry.argtypes = ctypes.POINTER(_Bundle), ()
        bundle = entry()
        if not bundle or bundle.contents.abi_version != RUNTIME_ABI:
            raise LoadFailed(f"{path.name} does not have the ABI {RUNTIME_ABI}")
        self._bundle = bundle.contents
        self._model = self._bundle.model
        if has_table:
            table = ctypes.cast(bundle, ctypes.POINTER(_Table)).contents
            if position >= table.count:
                raise LoadFailed(f"{path.name} has {table.count} entries, fewer than the manifest")
            self._model = table.models[position]
        elif position:
            raise LoadFailed(f"{path.name} has one entry, fewer than the manifest")

    @property
    def weights_bytes(self) -> int:
        """Size of the weights."""
        return int(self._model.contents.weights_bytes)

    @property
    def arena_bytes(self) -> int:
        """Size of the memory for intermediate tensors."""
        return int(self._model.contents.arena_bytes)

    @property
    def arguments(self) -> tuple[int, int]:
        """How many inputs and outputs."""
        return int(self._model.contents.inputs), int(self._model.contents.outputs)

    def start_threads(self, threads: int) -> None:
        """Start threads for parallel loops, the caller included; fewer run if they cannot be started."""
        self._bundle.start_threads(threads)

    def run(
        self, weights: int, arena: int, inputs: ctypes.Array[ctypes.c_void_p], outputs: ctypes.Array[ctypes.c_void_p]
    ) -> None:
        """Run once. All arguments are addresses of memory at multiples of 64.

        Raises:
            RunFailed: the model reports an error.
        """
        if self._bundle.run(self._model, weights, arena, inputs, outputs) != 0:
            raise RunFailed((self._bundle.last_error() or b"").decode(errors="replace")[:500])
