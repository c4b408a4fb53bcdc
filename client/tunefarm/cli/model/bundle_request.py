"""What the commands that build bundles take, and how this machine builds them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, get_args

import typer

from tunefarm.terminal.console import complain
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import WASM_TARGET, BundleForm, BundleManifest

if TYPE_CHECKING:
    from tunefarm.bundle.bundle_build import BuiltBundle
    from tunefarm.bundle.bundle_source import BundleSource
    from tunefarm.client import Client
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
        "records, this host for models, wasm32-simd128 for --form wasm."
    ),
]
FormOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="|".join(FORMS),
        help="Kernels as C sources or object files; or all of it as an archive, a shared library or a module for "
        "WebAssembly; or kernels for an NVIDIA GPU.",
    ),
]
CompilerOption: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="COMMAND",
        help="C compiler for --form static and library, such as aarch64-linux-gnu-gcc, or zig; default: this host's "
        "for its own architecture, zig for others. For --form cuda, nvcc; default: the installed one.",
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
ModelOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="FILE", help="The model of the job, if the job does not keep it: a file, as for a source."
    ),
]
FunctionsOnlyOption: TypeAlias = Annotated[
    bool,
    typer.Option("--functions-only", help="Of the job of a model: the functions of its records, without the model."),
]
NoTimingOption: TypeAlias = Annotated[
    bool, typer.Option("--no-timing", help="Do not time a shared library that runs on this host.")
]


@dataclass(frozen=True)
class BundleRequest:
    """What to build, as typed: a model's file, or ids of records and jobs.

    ``job_model`` is the file of the only job's model; ``functions_only`` asks for its functions instead.
    """

    sources: Sequence[str]
    target: str
    form: BundleForm
    cc: str
    is_timed: bool
    device_class_id: str | None = None
    job_model: str | None = None
    functions_only: bool = False

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
    from tunefarm.local.machine import LocalMachine
    from tunefarm.options.job_options import output_folder
    from tunefarm.startup.prestarted_fork_server import take_fork_server

    model = request.model
    if model is None and (shape or fresh):
        raise BadInput("source", "--shape and --fresh are for models, and ids are given.", "Leave them out.")
    if model is not None and (request.job_model is not None or request.functions_only):
        raise BadInput("source", "--model and --functions-only are for jobs, and a file is given.", "Leave them out.")
    folder = output_folder(output)
    with LocalMachine(fork_server=take_fork_server()) as machine:
        if model is not None:
            return _built_model(machine, request, model, folder, entry, shape, fresh=fresh)
        source, name = _named_source(machine, request, entry)
        builder = BundleBuilder(machine.fork_server, say=complain, is_timed=request.is_timed)
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


def built_there(request: BundleRequest, output: str, api: str | None, shape: Sequence[str] = ()) -> BundleManifest:
    """Have a service build a bundle of its records, and write it to the new or empty folder ``output``.

    Raises:
        BadInput: it cannot be built.
    """
    from tunefarm.client import Client
    from tunefarm.options.job_options import output_folder

    if request.model is not None or request.cc or request.device_class_id is not None:
        problem = "files of models, and bundles of other compilers, are built on this machine."
        raise BadInput("api", problem, "Omit --api and --remote, and unset TUNEFARM_API_URL.")
    folder = output_folder(output)
    with Client(api) as client:
        made = client.bundles.of_sources(
            request.sources,
            form=request.form,
            target=request.target or None,
            model=None if request.job_model is None else _whole_model(client, request.job_model, shape),
            functions_only=request.functions_only,
        )
        complain(f"bundle {made.bundle_id} is {made.state}")
        return client.bundles.content(made.bundle_id, timeout_s=BUILD_S).write(folder)


def _whole_model(client: "Client", file: str, shape: Sequence[str]) -> bytes:
    from tunefarm.frontend.model_import import import_model
    from tunefarm.frontend.model_source import parse_model_source
    from tunefarm.options.model_options import sizes_of_text
    from tunefarm.remote.whole_model import whole_model

    complain(f"reading {file}")
    fork_server = client.converter.fork_server
    return whole_model(
        fork_server, import_model(fork_server, parse_model_source(file), dict(map(sizes_of_text, shape)))
    )


def _named_source(machine: "LocalMachine", request: BundleRequest, entry: str | None) -> "tuple[BundleSource, str]":
    """What ids stand for, and a name for the bundle: the model of a single job, or else functions of records."""
    from tunefarm.local.bundle_records import functions_of_ids, only_job_of_model
    from tunefarm.local.job_bundle import model_of_job

    job = None if request.functions_only else only_job_of_model(machine, request.sources)
    if job is not None:
        complain(f"reading the model of job {job.job_id}")
        made = model_of_job(machine, job, request.job_model, request.target, request.form, entry)
        return made.source, made.name
    if entry is not None or request.job_model is not None:
        fix = "Leave them out, or give one job of a model."
        raise BadInput("source", "--entry and --model are for models, and records are given.", fix)
    return functions_of_ids(machine, request.sources, request.target, request.form)


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
    imported = import_model(machine.fork_server, source, sizes)
    records = (lambda _tasks, _target, _generator: {}) if fresh else records_of(machine)
    builder = BundleBuilder(machine.fork_server, records, complain, is_timed=request.is_timed)
    name = source.path.rpartition("/")[2].partition(".")[0]
    target = request.target or (WASM_TARGET if request.form == "wasm" else "")
    return builder.build(imported, target, name, request.form, folder, entry, request.cc, request.device_class_id)
