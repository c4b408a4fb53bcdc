"""A fresh process that loads one compiled library and times it, as whoever ships it would run it.

``python -m tunefarm_workers.artifact_runner FOLDER`` runs the artifact of a folder and prints its latency as JSON. With
``--channel NUMBER`` orders come over that descriptor instead.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import tvm_ffi

from tunefarm_sandbox.channel import Channel
from tunefarm_schemas.artifact import ArtifactManifest
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.device import PROTOCOLS
from tunefarm_schemas.measurement import Timing
from tunefarm_workers.argument import Argument
from tunefarm_workers.call_timer import CallTimer
from tunefarm_workers.example_files import read_examples
from tunefarm_workers.inputs import make_inputs
from tunefarm_workers.messages import FreshOrder, FreshTiming
from tunefarm_workers.runtime_library import allocate, contents_of, fill, load_runtime
from tunefarm_workers.thread_placement import place_threads
from tunefarm_workers.timing_protocol import full_timing

MANIFEST_NAME = "manifest.json"
_READY = b"ready"
_INDEX_TYPES = {"int32", "int64", "uint32", "uint64"}


class LoadedArtifact:
    """A compiled library with inputs to call it on."""

    def __init__(self, order: FreshOrder) -> None:
        """Load the library of ``order`` after checking that it is the one that was meant.

        Raises:
            BadInput: when its digest is not the expected one.
        """
        path = Path(order.library)
        if hashlib.sha256(path.read_bytes()).hexdigest() != order.digest:
            raise BadInput("library", f"{path.name} is not the library its manifest describes.", "Build it again.")
        os.environ["TVM_NUM_THREADS"] = str(order.num_cores)
        load_runtime()
        place_threads(order.num_cores)
        self._order = order
        self._module = tvm_ffi.load_module(str(path))
        self.arguments = self._tensors()
        self.timer = CallTimer(self._module, order.entry, self._call_with(), cold_cache=order.cold_cache)

    def time(self) -> Timing:
        """Take the time by the whole protocol. The kernel must have been called once."""
        return full_timing(self.timer.seconds_per_call, self.timer.seconds_per_call(1))

    def outputs(self) -> list[bytes]:
        """The contents of each output, after a call."""
        pairs = zip(self._order.arguments, self.arguments, strict=True)
        return [contents_of(held, argument.tensor).tobytes() for argument, held in pairs if argument.tensor.is_output]

    def _tensors(self) -> list[Any]:
        order = self._order
        arrays = make_inputs(
            order.arguments,
            seed=order.seed,
            set_number=0,
            distribution=order.distribution,
            specs=order.input_specs,
            examples=order.input_examples,
        )
        tensors = []
        for argument, array in zip(order.arguments, arrays, strict=True):
            tensors.append(allocate(argument.tensor))
            if array is not None:
                fill(tensors[-1], array)
        return tensors

    def _call_with(self) -> list[Any]:
        order = self._order
        if order.pack_entry is None:
            return self.arguments
        packed = {tensor.name: allocate(tensor) for tensor in order.packed_arguments}
        plain = [
            held
            for argument, held in zip(order.arguments, self.arguments, strict=True)
            if argument.tensor.name in packed
        ]
        self._module[order.pack_entry](*plain, *packed.values())
        return [
            packed.get(argument.tensor.name, held)
            for argument, held in zip(order.arguments, self.arguments, strict=True)
        ]


def order_of(manifest: ArtifactManifest, folder: Path) -> FreshOrder:
    """What to run for the artifact in ``folder``.

    Whole numbers that no spec of the manifest gives are zero, for they may address other tensors. Without the example
    that a spec names, the argument is filled as if there were none.
    """
    examples = read_examples(folder, manifest.input_specs)
    held = {example.example_digest for example in examples}
    return FreshOrder(
        library=str(folder / Path(manifest.library_name).name),
        digest=manifest.library_digest,
        entry=manifest.entry,
        pack_entry=manifest.pack_entry,
        arguments=tuple(
            Argument(
                tensor=tensor,
                holds_input=True,
                index_extent=1 if tensor.dtype in _INDEX_TYPES and not tensor.is_output else None,
            )
            for tensor in manifest.arguments
        ),
        packed_arguments=manifest.packed_arguments,
        num_cores=manifest.num_cores,
        cold_cache=PROTOCOLS[manifest.protocol_id].cold_cache,
        seed=0,
        distribution="positive",
        input_specs=tuple(
            spec for spec in manifest.input_specs if spec.example_digest is None or spec.example_digest in held
        ),
        input_examples=examples,
    )


def run_folder(folder: Path) -> Timing:
    """Load and time the artifact in ``folder``.

    Raises:
        BadInput: when the folder holds no artifact, or not the one its manifest describes.
    """
    try:
        manifest = ArtifactManifest.model_validate_json((folder / MANIFEST_NAME).read_bytes())
        artifact = LoadedArtifact(order_of(manifest, folder))
    except OSError as error:
        raise BadInput("artifact", f"{error}.", "Name a folder that `artifact build` has made.") from error
    except ValueError as error:
        raise BadInput("artifact", f"its manifest cannot be read: {error}.", "Build it again.") from error
    artifact.timer.call()
    return artifact.time()


def serve(channel: Channel) -> None:
    """Say that all is imported; then run one order: load, call once, send the outputs, wait for a go, and time."""
    load_runtime()
    channel.send(_READY)
    artifact = LoadedArtifact(FreshOrder.model_validate_json(channel.receive()))
    artifact.timer.call()
    for output in artifact.outputs():
        channel.send(output)
    channel.receive()
    channel.send(FreshTiming(timing=artifact.time()).model_dump_json().encode())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Time a compiled artifact in a fresh process.")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--channel", type=int)
    given = parser.parse_args()
    if given.channel is not None:
        serve(Channel(given.channel))
        return 0
    if given.folder is None:
        parser.error("name the artifact's folder")
    try:
        timing = run_folder(given.folder)
    except BadInput as error:
        print(json.dumps({"field": error.field, "problem": error.problem, "fix": error.fix}), file=sys.stderr)
        return 2
    print(json.dumps({"latency_s": timing.latency_s, "samples_s": timing.samples_s}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
