"""What the commands that build bundles take, and how this machine builds them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, get_args

import typer

from tunefarm.terminal.console import complain
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BundleForm, BundleManifest

if TYPE_CHECKING:
    from tunefarm.bundle.bundle_build import BuiltBundle
    from tunefarm.local.machine import LocalMachine

BUILD_S: Final = 1800.0
"""How long a command waits for a service to build."""
FORMS: Final = get_args(BundleForm)
SourceArgument: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        metavar="SOURCE...",
        help="A .pt2, .onnx, .tflite, StableHLO or TVM JSON file, or FILE.py:NAME; or ids of records and jobs, or "
        "prefixes of them.",
    ),
]
TargetOption: TypeAlias = Annotated[
    str,
    typer.Option(
        help="host, host:THREADS, a preset such as raspberry-pi-4, or a TVM target as JSON. Default: that of the "
        "records, this host for models."
    ),
]
FormOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="|".join(FORMS),
        help="Kernels as C sources or object files; or all of it as an archive or a shared library; or kernels for an "
        "NVIDIA GPU.",
    ),
]
CompilerOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="C compiler for --form static and library, such as aarch64-linux-gnu-gcc, or zig; default: this host's "
        "for its own architecture, zig for others. For --form cuda, nvcc; default: that on PATH.",
    ),
]
FallbackOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TARGET",
        help="Build for this target too, for devices without the instructions of those before it; or generic, for any "
        "processor of the architecture. Repeatable.",
    ),
]
DeviceClassOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Only devices of this class get the bundle for --target, others a fallback."),
]
NoTimingOption: TypeAlias = Annotated[
    bool, typer.Option("--no-timing", help="Do not time a shared library that runs on this host.")
]


@dataclass(frozen=True)
class BundleRequest:
    """What to build, as typed: a model's file, or ids of records and jobs."""

    sources: Sequence[str]
    target: str
    form: BundleForm
    cc: str
    is_timed: bool
    device_class_id: str | None = None

    @property
    def model(self) -> str | None:
        """The model; None if ids are given. Ids have neither dots nor slashes nor colons; names of files do.

        Raises:
            BadInput: a model is given beside other sources.
        """
        found = next((each for each in self.sources if any(sign in each for sign in "./:")), None)
        if found is not None and len(self.sources) > 1:
            problem = f"{found!r} is a file, and {len(self.sources)} sources are given."
            raise BadInput("source", problem, "Give one model, or ids of records and jobs.")
        return found


def form_of_text(text: str) -> BundleForm:
    """The form that a user typed. Raises BadInput."""
    found: BundleForm | None = next((each for each in FORMS if each == text), None)
    if found is None:
        raise BadInput("form", f"{text!r} is not a form of kernels.", f"Give one of: {', '.join(FORMS)}.")
    return found


def built_here(
    request: BundleRequest, output: str, entry: str | None = None, shape: Sequence[str] = (), *, fresh: bool = False
) -> "BuiltBundle":
    """Build a bundle on this machine, in the new or empty folder ``output``.

    Raises:
        BadInput: it cannot be built.
    """
    from tunefarm.bundle.bundle_build import BundleBuilder
    from tunefarm.local.bundle_records import functions_of_ids
    from tunefarm.local.machine import LocalMachine
    from tunefarm.options.job_options import output_folder
    from tunefarm.startup.prestarted_fork_server import take_zygote

    model = request.model
    if model is None and (entry is not None or shape or fresh):
        raise BadInput("source", "--entry, --shape and --fresh are for models, and ids are given.", "Leave them out.")
    folder = output_folder(output)
    with LocalMachine(zygote=take_zygote()) as machine:
        if model is not None:
            return _built_model(machine, request, model, folder, entry, shape, fresh=fresh)
        source, name = functions_of_ids(machine, request.sources, request.target)
        builder = BundleBuilder(machine.zygote, say=complain, is_timed=request.is_timed)
        return builder.build_source(source, name, request.form, folder, request.cc, request.device_class_id)


def built_variants(
    request: BundleRequest,
    output: str,
    fallbacks: Sequence[str],
    entry: str | None = None,
    shape: Sequence[str] = (),
    *,
    fresh: bool = False,
) -> "list[BuiltBundle]":
    """Build bundles for the target and for ``fallbacks`` in folders below ``output``.

    Raises:
        BadInput: one cannot be built; none is left behind.
    """
    from tunefarm.bundle.fallbacks import VariantFolders
    from tunefarm.options.job_options import output_folder

    def build(target: str, folder: Path) -> "BuiltBundle":
        own_class = request.device_class_id if folder.name == "0" else None
        own = replace(request, target=target, device_class_id=own_class)
        return built_here(own, str(folder), entry, shape, fresh=fresh)

    return VariantFolders(build, request.form).write([request.target, *fallbacks], output_folder(output))


def built_there(request: BundleRequest, output: str, api: str | None) -> BundleManifest:
    """Have a service build a bundle of its records, and write it to the new or empty folder ``output``.

    Raises:
        BadInput: it cannot be built.
    """
    from tunefarm.client import Client
    from tunefarm.options.job_options import output_folder

    if request.model is not None or request.cc or request.form == "cuda":
        problem = "models, and bundles for GPUs or of other compilers, are built on this machine."
        raise BadInput("api", problem, "Omit --api and --remote, and unset TUNEFARM_API_URL.")
    folder = output_folder(output)
    with Client(api) as client:
        made = client.bundles.of_sources(request.sources, form=request.form, target=request.target or None)
        complain(f"bundle {made.bundle_id} is {made.state}")
        return client.bundles.content(made.bundle_id, timeout_s=BUILD_S).write(folder)


def _built_model(
    machine: "LocalMachine",
    request: BundleRequest,
    model: str,
    folder: Path,
    entry: str | None,
    shape: Sequence[str],
    *,
    fresh: bool,
) -> "BuiltBundle":
    from tunefarm.bundle.bundle_build import BundleBuilder
    from tunefarm.frontend.model_import import import_model
    from tunefarm.frontend.model_source import parse_model_source
    from tunefarm.local.model_records import records_of
    from tunefarm.options.model_options import sizes_of_text

    source, sizes = parse_model_source(model), dict(sizes_of_text(each) for each in shape)
    complain(f"reading {model}")
    imported = import_model(machine.zygote, source, sizes)
    records = (lambda _tasks, _target, _generator: {}) if fresh else records_of(machine)
    builder = BundleBuilder(machine.zygote, records, complain, is_timed=request.is_timed)
    name = source.path.rpartition("/")[2].partition(".")[0]
    return builder.build(
        imported, request.target, name, request.form, folder, entry, request.cc, request.device_class_id
    )
