"""Runs the release that is installed."""

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from tunefarm_edge.runtime.bundle_library import BundleLibrary, LoadFailed
from tunefarm_edge.runtime.entries import entry_named, read_entries
from tunefarm_edge.runtime.latencies import LatencyRecorder
from tunefarm_edge.runtime.memory import ALIGNMENT, AlignedMemory, Buffer, MappedWeights, address_of

DEFAULT_ROOT: Final = "/var/lib/tunefarm-edge"
TABLE_FORMAT: Final = 3
"""Libraries of bundles whose manifest has this format or a later one have a table of entries."""


class LoadedRelease:
    """One entry of a release in memory: its library, its weights, an arena.

    Runs of one object follow each other: they share an arena. Safe for threads.

    Raises:
        LoadFailed: a file is missing, or does not match the manifest.
        UnknownEntry: there is no entry called ``entry``; or there are several, and it is None.
    """

    def __init__(self, folder: Path, entry: str | None = None) -> None:
        self.folder = folder
        self.manifest, entries = read_entries(folder)
        self.entry = entry_named(entries, entry)
        self.inputs, self.outputs = self.entry.inputs, self.entry.outputs
        try:
            self._input_bytes = tuple(each.size_bytes for each in self.inputs)
            self._output_bytes = tuple(each.size_bytes for each in self.outputs)
            has_table = int(self.manifest.get("format", 1)) >= TABLE_FORMAT
            self._library = BundleLibrary(folder / "model.so", self.entry.position, has_table=has_table)
            self._weights = MappedWeights(folder / "weights.bin")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LoadFailed(f"{folder.name} cannot be loaded: {error!r}"[:500]) from error
        if self._library.arguments != (len(self.inputs), len(self.outputs)):
            raise LoadFailed("the library has other inputs or outputs than the manifest")
        if self._weights.size_bytes < self._library.weights_bytes:
            raise LoadFailed("weights.bin is shorter than the library expects")
        self._arena = AlignedMemory(self._library.arena_bytes)
        self._input_addresses = (ctypes.c_void_p * max(len(self.inputs), 1))()
        self._output_addresses = (ctypes.c_void_p * max(len(self.outputs), 1))()
        self._copies: dict[int, AlignedMemory] = {}
        self._lock = threading.Lock()
        threads = min(int(self.manifest.get("num_cores", 1)), len(os.sched_getaffinity(0)))
        self._library.start_threads(max(threads, 1))

    def run(self, inputs: Sequence[Buffer], outputs: Sequence[memoryview]) -> None:
        """Run once, into memory that the caller gives.

        Args:
            inputs: one contiguous buffer each, with exactly the tensor's bytes. Read in place if it begins at a
                multiple of 64 bytes, else copied to memory that is kept for the next run.
            outputs: writable, contiguous, at multiples of 64 bytes, as ``new_outputs`` makes them.

        Raises:
            ValueError: the number or the size of a buffer is wrong, or an output is not aligned.
            RunFailed: the model reports an error.
        """
        if (len(inputs), len(outputs)) != (len(self.inputs), len(self.outputs)):
            raise ValueError(f"the model has {len(self.inputs)} inputs and {len(self.outputs)} outputs")
        views = [memoryview(each) for each in inputs]  # keep the caller's memory alive during the run
        with self._lock:
            for at, view in enumerate(views):
                self._input_addresses[at] = self._placed(at, view)
            for at, view in enumerate(outputs):
                self._output_addresses[at] = self._writable(at, view)
            self._library.run(self._weights.address, self._arena.address, self._input_addresses, self._output_addresses)

    def new_outputs(self) -> list[memoryview]:
        """Memory for the outputs of a run."""
        return [AlignedMemory(size).view for size in self._output_bytes]

    def _placed(self, at: int, view: memoryview) -> int:
        if view.nbytes != self._input_bytes[at] or not view.c_contiguous:
            tensor = self.inputs[at]
            raise ValueError(f"input {tensor.name} is not {self._input_bytes[at]} contiguous bytes, but {view.nbytes}")
        address = address_of(view)
        if address % ALIGNMENT == 0:
            return address
        copy = self._copies.get(at) or self._copies.setdefault(at, AlignedMemory(self._input_bytes[at]))
        ctypes.memmove(copy.address, address, view.nbytes)
        return copy.address

    def _writable(self, at: int, view: memoryview) -> int:
        address = address_of(view)
        if view.nbytes != self._output_bytes[at] or view.readonly or not view.c_contiguous or address % ALIGNMENT:
            tensor = self.outputs[at]
            raise ValueError(f"output {tensor.name} is not {self._output_bytes[at]} writable bytes at a multiple of 64")
        return address


class NoRelease(Exception):
    """The device runs no release: none is installed, or its service stopped it."""


class Model:
    """An entry of the current release of a device, whichever release that is at the time of a run."""

    def __init__(self, root: str | Path, entry: str | None = None) -> None:
        self._root = Path(root)
        self._entry = entry
        self._link = str(self._root / "current")
        self._target = ""
        self._loaded: LoadedRelease | None = None
        self._recorder: LatencyRecorder | None = None
        self._lock = threading.Lock()
        self.release()

    @classmethod
    def current(cls, root: str | Path = DEFAULT_ROOT, *, entry: str | None = None) -> Self:
        """The model of the device whose folder is ``root``. ``entry`` names one of several; None is the only one.

        Raises:
            NoRelease: none is installed.
            UnknownEntry: the release has no such entry, or several and ``entry`` is None.
            LoadFailed: it cannot be loaded.
        """
        return cls(root, entry)

    def release(self) -> LoadedRelease:
        """The release that runs now, loaded; a new one after a switch.

        Raises:
            NoRelease: the device runs none.
            LoadFailed: the new one cannot be loaded. The agent goes back to the previous one then.
            UnknownEntry: the new one lacks this entry.
        """
        try:
            target = os.readlink(self._link)  # noqa: PTH115 - a Path would be made at each run
        except OSError:
            raise NoRelease(f"{self._root} has no release that may run") from None
        loaded = self._loaded
        if loaded is None or target != self._target:
            with self._lock:
                loaded = self._loaded
                if loaded is None or target != self._target:  # no other thread has loaded it meanwhile
                    loaded = LoadedRelease(self._root / target, self._entry)
                    self._recorder = LatencyRecorder(self._root / "latencies", loaded.folder.name)
                    self._loaded, self._target = loaded, target
        return loaded

    @property
    def name(self) -> str:
        """The name of the release that runs now."""
        return self.release().folder.name.partition("+")[0]

    def run(self, inputs: Sequence[Buffer], outputs: Sequence[memoryview] | None = None) -> Sequence[memoryview]:
        """Run the current release.

        Args:
            inputs: see ``LoadedRelease.run``.
            outputs: where results go; None: new memory.

        Returns:
            The outputs, as bytes; ``memoryview.cast`` or ``numpy.frombuffer`` reads them as numbers.

        Raises:
            NoRelease: the device runs no release any more.
            LoadFailed: the current release cannot be loaded.
            RunFailed: the model reports an error.
            ValueError: a buffer is wrong.
        """
        release = self.release()
        results = release.new_outputs() if outputs is None else outputs
        began_s = time.perf_counter()
        release.run(inputs, results)
        if self._recorder is not None:
            self._recorder.record(time.perf_counter() - began_s)
        return results
