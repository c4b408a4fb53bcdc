"""A fresh process that loads the library of one artifact and times it as an application would run it.

``python -m tunefarm_workers.artifact.artifact_runner FOLDER`` prints its latency as JSON.
"""

import argparse
import json
import sys
from collections.abc import Collection
from pathlib import Path

from tunefarm_sandbox.confinement import linux
from tunefarm_sandbox.confinement.filter_program import seal_with
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.check import require_kernel
from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.artifact.artifact_order import artifact_order
from tunefarm_workers.artifact.example_files import read_examples
from tunefarm_workers.artifact.library_inputs import LibraryInputs
from tunefarm_workers.artifact.loaded_library import LoadedLibrary, WrongLibrary, require_digest
from tunefarm_workers.artifact.runtime_library import Runtime
from tunefarm_workers.artifact.runtime_paths import NoRuntime, runtime_paths
from tunefarm_workers.builder.sealed_library import path_of, sealed
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.correctness.inputs import InputArray, make_inputs
from tunefarm_workers.threads.shared_cache_wait import SharedCacheWait
from tunefarm_workers.threads.thread_cores import cores_for
from tunefarm_workers.timing.calm_samples import middle

MANIFEST_NAME = "manifest.json"
_INDEX_TYPES = {"int32", "int64", "uint32", "uint64"}
_FIX = "Build it again."


def samples_of_folder(
    folder: Path, callees: Collection[str] = (), library: Path | None = None, seal: str = ""
) -> list[float]:
    """Return the seconds per call of the artifact in ``folder``. Its library may call ``callees``.

    ``library`` is a sealed copy of the library, for processes that may not create one. ``seal`` is applied before any
    code of the library runs.

    Raises:
        BadInput: the folder holds no artifact, its library does not match the manifest or must not be loaded, or TVM
            is not installed.
    """
    try:
        manifest = ArtifactManifest.model_validate_json((folder / MANIFEST_NAME).read_bytes())
        arguments = tuple(map(_argument, manifest.arguments))
        inputs = LibraryInputs.of(arguments)
        memory = memoryview(bytearray(inputs.size_bytes))
        inputs.write(_arrays(manifest, arguments, folder), memory)
        order = artifact_order(manifest, folder / Path(manifest.library_name).name, inputs.tensors)
        # Created first: it reads files, which the seal forbids, and the affinity that thread placement narrows.
        shared_cache_wait = SharedCacheWait(cores_for(manifest.num_cores))
        contents = Path(library or order.library).read_bytes()
        require_digest(contents, order)
        require_kernel(contents, "library", LibraryRules(callees=tuple(callees)))
        order = order._replace(library=str(library or path_of(sealed(contents))))
        loaded = LoadedLibrary(Runtime(*runtime_paths()), order, memory, on_loaded=lambda: seal_with(seal))
    except WrongLibrary as error:
        raise BadInput("library", f"{error}.", _FIX) from error
    except NoRuntime as error:
        raise BadInput("artifact", f"{error}.", "Install it: pip install apache-tvm") from error
    except OSError as error:
        raise BadInput("artifact", f"{error}.", "Give a folder that `artifact build` created.") from error
    except ValueError as error:
        raise BadInput("artifact", f"its manifest cannot be read: {error}.", _FIX) from error
    loaded.call()
    shared_cache_wait.wait(manifest.latency_s, loaded.shares_cache)
    return list(loaded.samples_s())


def _argument(tensor: TensorArgument) -> Argument:
    """Integers are zero unless a spec of the manifest draws others: they may be indices into another tensor."""
    is_index = tensor.dtype in _INDEX_TYPES and not tensor.is_output
    return Argument(tensor=tensor, holds_input=True, index_extent=1 if is_index else None)


def _arrays(manifest: ArtifactManifest, arguments: tuple[Argument, ...], folder: Path) -> tuple[InputArray | None, ...]:
    """Fill the arguments, without the specs whose examples are missing."""
    examples = read_examples(folder, manifest.input_specs)
    held = {example.example_digest for example in examples}
    return make_inputs(
        arguments,
        seed=0,
        set_number=0,
        distribution="positive",
        specs=[spec for spec in manifest.input_specs if spec.example_digest is None or spec.example_digest in held],
        examples=examples,
    )


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Time a compiled artifact in a fresh process.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--callee", action="append", default=[], help="a function that the library may call")
    parser.add_argument("--library", type=Path, help="a sealed copy of the library")
    parser.add_argument("--seal", default="", help=argparse.SUPPRESS)  # set by a child that executes this
    given = parser.parse_args()
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    try:
        samples_s = samples_of_folder(given.folder, given.callee, given.library, given.seal)
    except BadInput as error:
        print(json.dumps({"field": error.field, "problem": error.problem, "fix": error.fix}), file=sys.stderr)
        return 2
    print(json.dumps({"latency_s": middle(samples_s), "samples_s": samples_s}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
