"""``tunefarm bundle``: build models for devices without TVM, and check bundles."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tunefarm.cli.model.bundle_request import (
    BundleRequest,
    CompilerOption,
    DeviceClassOption,
    FallbackOption,
    FormOption,
    FunctionsOnlyOption,
    ModelOption,
    NoTimingOption,
    SourceArgument,
    TargetOption,
    built_here,
    built_variants,
    form_of_text,
)
from tunefarm.cli.model.model_arguments import FreshOption, ShapeOption, say_kinds, say_notes
from tunefarm.cli.remote_options import AsJson
from tunefarm.terminal.console import say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.tuning.bundle import BundleManifest, BundleRequirements, CudaRequirements
from tunefarm_schemas.views.quantities import bytes_text, counted, latency_text

if TYPE_CHECKING:
    from tunefarm.bundle.bundle_build import BuiltBundle

bundle = typer.Typer(
    help="Build models and functions for devices without TVM, and check bundles.", no_args_is_help=True
)
_RUN: Final = "./self_test ."
_SELF_TEST: Final = {
    "c": (
        "cc -std=c11 -O2 -Wl,--gc-sections -I. -Iruntime model.c kernels/* runtime/*.c -lm -pthread -o self_test",
        _RUN,
    ),
    "cuda": ("cc -std=c11 -O2 -I. -Iruntime model.c kernels/*.c runtime/*.c -lm -ldl -pthread -o self_test", _RUN),
    "static": (
        "cc -std=c11 -O2 -Wl,--gc-sections -Iinclude self_test.c libmodel.a -lm -pthread -o self_test",
        _RUN,
    ),
    "wasm": ("wasmtime run --dir . self_test.wasm .",),
}
"""Commands that build and run the self-test."""


@bundle.command()
def build(
    source: SourceArgument,
    output: Annotated[str, typer.Option(help="New folder for the bundle.")],
    target: TargetOption = "",
    form: FormOption = "objects",
    fallback: FallbackOption = None,
    device_class: DeviceClassOption = None,
    cc: CompilerOption = "",
    entry: Annotated[str | None, typer.Option(metavar="NAME", help="The model's function, if it has several.")] = None,
    shape: ShapeOption = None,
    fresh: FreshOption = False,
    no_timing: NoTimingOption = False,
    model: ModelOption = None,
    functions_only: FunctionsOnlyOption = False,
    as_json: AsJson = False,
) -> int:
    """Write a model, or functions of records, as kernels, a plan in C, weights, test vectors and a runtime.

    Functions of a model get the schedules of their records, where the local store has some, and others an untried one.
    A job of a model stands for the model; another job stands for the records of its tasks, and each record becomes a
    function of its own. With --fallback, a bundle for each target is written to DIR/0, DIR/1 and so on, the variants of
    one release.
    """
    request = BundleRequest(source, target, form_of_text(form), cc, not no_timing, device_class, model, functions_only)
    if fallback:
        built = built_variants(request, output, fallback, entry, shape or (), fresh=fresh)
        if as_json:
            print_json([each.manifest.model_dump(mode="json") | {"folder": str(each.folder)} for each in built])
        else:
            for each in built:
                print_built(each, as_json=False)
        return ExitCode.FINE
    print_built(built_here(request, output, entry, shape or (), fresh=fresh), as_json=as_json)
    return ExitCode.FINE


@bundle.command()
def check(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder written by bundle build.")],
    as_json: AsJson = False,
) -> int:
    """Compare the files of a bundle with its manifest."""
    from tunefarm.bundle.bundle_folder import read_bundle

    manifest, path = read_bundle(folder)
    size_bytes = sum(each.size_bytes for each in manifest.files)
    if as_json:
        print_json({"folder": str(path), "name": manifest.name, "files": len(manifest.files), "size_bytes": size_bytes})
        return ExitCode.FINE
    say(f"{manifest.name}: {counted(len(manifest.files), 'file')}, {bytes_text(size_bytes)}, as its manifest says")
    return ExitCode.FINE


def print_built(built: "BuiltBundle", *, as_json: bool) -> None:
    """Print what was built, and how to use it."""
    if as_json:
        shown = built.manifest.model_dump(mode="json") | {"folder": str(built.folder), "notes": list(built.notes)}
        print_json(shown | {"problems": dict(built.problems)})
        return
    say_notes(built.notes, built.problems)
    print_manifest(built.manifest, built.folder, as_json=False)


def print_manifest(manifest: BundleManifest, folder: Path, *, as_json: bool) -> None:
    """Print what a bundle in ``folder`` has, and how to use it."""
    if as_json:
        print_json(manifest.model_dump(mode="json") | {"folder": str(folder)})
        return
    say_kinds(manifest.functions)
    say(
        f"memory of a run: {bytes_text(manifest.weights_bytes)} of weights, {bytes_text(manifest.arena_bytes)} of arena"
    )
    if manifest.requires is not None:
        say(_requires_text(manifest.requires))
    if manifest.requires_cuda is not None:
        say(_requires_cuda_text(manifest.requires_cuda))
    if manifest.latency is not None:
        latency = manifest.latency
        say(f"a run here: {latency_text(latency.p50_s)}, 95% of runs within {latency_text(latency.p95_s)}")
    vectors = counted(sum(map(len, (manifest.vectors, *(each.vectors for each in manifest.others)))), "test vector")
    if manifest.form == "library":
        say(f"{folder}: {vectors}; load model.so (tunefarm_bundle.h)")
        return
    say(f"{folder}: {vectors}; run its self-test there:")
    for line in _SELF_TEST.get(manifest.form, _SELF_TEST["c"]):
        say(f"  {line}")


def _requires_text(requires: BundleRequirements) -> str:
    needed = (requires.architecture, requires.libc, *requires.cpu_features)
    return f"requires: {', '.join(each for each in needed if each)}"


def _requires_cuda_text(requires: CudaRequirements) -> str:
    which = "exactly" if requires.is_exact else "or later"
    shared = bytes_text(requires.shared_memory_bytes)
    return (
        f"requires: an NVIDIA GPU with compute capability {requires.compute_capability} {which}, a driver for CUDA "
        f"{requires.driver_api} or later, {shared} of shared memory for a block"
    )
