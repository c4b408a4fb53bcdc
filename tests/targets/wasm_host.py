"""Calls the functions that model.wasm exports from Wasmtime, as a host program does."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import wasmtime

from tunefarm_schemas.tuning.bundle import BundleEntry, BundleManifest

Array = npt.NDArray[np.generic]


class WasmModel:
    """A bundle of the form ``wasm``, instantiated without any import."""

    def __init__(self, folder: Path) -> None:
        engine = wasmtime.Engine()
        self._store = wasmtime.Store(engine)
        module = wasmtime.Module.from_file(engine, str(folder / "model.wasm"))
        self._exports = wasmtime.Instance(self._store, module, []).exports(self._store)
        self.call("_initialize")
        weights = (folder / "weights.bin").read_bytes()
        assert len(weights) == self.call("tunefarm_weights_bytes")
        self._weights = self.placed(weights)

    def call(self, name: str, *arguments: int) -> Any:
        function = self._exports[name]
        assert isinstance(function, wasmtime.Func)
        return function(self._store, *arguments)

    def placed(self, content: bytes) -> int:
        address = int(self.call("tunefarm_allocate", len(content))) & 0xFFFFFFFF
        assert address, "out of memory"
        assert address % 64 == 0
        self._memory.write(self._store, content, address)
        return address

    def run(self, number: int, inputs: list[bytes], outputs: list[int]) -> list[bytes]:
        """The contents of outputs of ``outputs`` bytes each."""
        given = [self.placed(each) for each in inputs]
        made = [self.placed(bytes(each)) for each in outputs]
        arena = self.placed(bytes(self.call("tunefarm_arena_bytes", number)))
        lists = [self.placed(struct.pack(f"<{len(many)}I", *many)) for many in (given, made)]
        status = self.call("tunefarm_run", number, self._weights, arena, *lists)
        assert status == 0, self.error()
        found = [bytes(self._memory.read(self._store, at, at + size)) for at, size in zip(made, outputs, strict=True)]
        for address in (*given, *made, arena, *lists):
            self.call("tunefarm_free", address)
        return found

    def error(self) -> str:
        at = int(self.call("tunefarm_error"))
        return bytes(self._memory.read(self._store, at, at + 512)).partition(b"\0")[0].decode()

    @property
    def _memory(self) -> wasmtime.Memory:
        memory = self._exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        return memory


def entries_of(manifest: BundleManifest) -> list[BundleEntry]:
    first = BundleEntry(
        constant=manifest.name, entry=manifest.entry, arena_bytes=manifest.arena_bytes, vectors=manifest.vectors
    )
    return [first, *manifest.others]


def worst_error(folder: Path, manifest: BundleManifest) -> float:
    """The largest error over all test vectors, relative to what is allowed."""
    model, worst = WasmModel(folder), 0.0
    for number, each in enumerate(entries_of(manifest)):
        for vector in each.vectors:
            inputs, expected = (
                [(folder / name).read_bytes() for name in many] for many in (vector.inputs, vector.outputs)
            )
            found = model.run(number, inputs, [len(one) for one in expected])
            for one, other, tensor in zip(found, expected, each.entry.outputs, strict=True):
                worst = max(worst, _error(np.frombuffer(one, tensor.dtype), np.frombuffer(other, tensor.dtype)))
    return worst / manifest.tolerance


def _error(found: Array, expected: Array) -> float:
    wanted = expected.astype("float64")
    return float(np.abs(found.astype("float64") - wanted).max() / np.abs(wanted).max())
