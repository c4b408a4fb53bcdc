"""``tunefarm submit``: submit a job to a service."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tunefarm.cli.remote_options import Api, AsJson
from tunefarm.frontend.model_file import model_file, unread
from tunefarm.frontend.model_source import ModelFile
from tunefarm.intake.intake_request import IntakeRequest
from tunefarm.intake.module_source import parse_module_source
from tunefarm.intake.untuned_functions import untuned_text
from tunefarm.options.device_class_option import class_of_devices
from tunefarm.options.intake_options import IntrinsicsOption, request_of_texts
from tunefarm.options.job_options import output_folder
from tunefarm.options.label_option import labels_of_texts
from tunefarm.options.model_options import ModelOptions
from tunefarm.remote.job_options import RemoteJobOptions
from tunefarm.startup.prestarted_fork_server import take_fork_server
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import tell_next, trying, watching
from tunefarm.terminal.tables import print_json
from tunefarm_schemas.bad_input import BadInput

if TYPE_CHECKING:
    from tunefarm.remote.remote_job import RemoteJob

StrategyName = Literal["random", "evolutionary", "tvm"]
AbiName = Literal["stable", "packed"]


def submit(
    module: Annotated[
        str,
        typer.Argument(
            help="TVMScript or te file, TVM JSON, FILE.py:NAME, te:NAME, builtin:NAME[:SHAPE] or a model's file."
        ),
    ],
    function: Annotated[str | None, typer.Option(help="One of the module's functions.")] = None,
    all_functions: Annotated[bool, typer.Option("--all-functions", help="All of the module's functions.")] = False,
    target: Annotated[
        str,
        typer.Option(help="A preset such as x86-64-v3, host, or a TVM target as JSON. Default: the service's choice."),
    ] = "",
    trials: Annotated[int, typer.Option(help="Maximum number of candidates to measure.")] = 512,
    seconds: Annotated[float | None, typer.Option(help="Maximum duration of the search.")] = None,
    plateau: Annotated[int | None, typer.Option(help="Stop after this many trials without a gain.")] = None,
    target_latency_us: Annotated[float | None, typer.Option(help="Stop at this latency, in microseconds.")] = None,
    device_seconds: Annotated[float | None, typer.Option(help="Maximum device time, in seconds.")] = None,
    deadline: Annotated[
        float | None, typer.Option(help="End after this many seconds, including time in the queue.")
    ] = None,
    strategy: Annotated[StrategyName, typer.Option(help="How candidates are chosen.")] = "evolutionary",
    space: Annotated[str | None, typer.Option(help="FILE.py:FUNCTION, your schedule function.")] = None,
    seed_trace: Annotated[
        list[str] | None,
        typer.Option(help="Schedule to measure first: JSON of a trace, or FILE.py:FUNCTION. Repeatable."),
    ] = None,
    intrinsics: IntrinsicsOption = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore existing records and trials.")] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="NAME=uniform:LOW:HIGH, integers:LOW:HIGH, normal or positive. Repeatable."),
    ] = None,
    protocol: Annotated[str, typer.Option(help="Timing protocol: cpu-hot-cache or cpu-cold-cache.")] = "cpu-hot-cache",
    abi: Annotated[AbiName, typer.Option(help="packed permits a changed layout of constant arguments.")] = "stable",
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N,N,...", help="Of a model: sizes of an input with dynamic dimensions. Repeatable."),
    ] = None,
    traced: Annotated[bool, typer.Option("--traced", help="Trace a torch module with torch.fx.")] = False,
    keep_model: Annotated[
        bool,
        typer.Option(
            "--keep-model", help="Send the model with its weights too, so that bundles of the job have all of it."
        ),
    ] = False,
    priority: Annotated[int, typer.Option(help="Jobs of higher priority start first.")] = 0,
    device_class: Annotated[
        str | None, typer.Option(help="Id of a device class, or its beginning. Default: the service's choice.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, a label for jobs list. Repeatable.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show progress until the job ends.")] = False,
    output: Annotated[str | None, typer.Option(help="With --wait: folder for the library and its manifest.")] = None,
    api: Api = None,
    as_json: AsJson = False,
) -> int:
    """Submit a tensor program to a service for tuning.

    Python code runs on this machine, in a confined process; only TVM JSON and traces are sent.
    """
    if output is not None and not wait:
        raise BadInput("output", "the library exists only after the job has finished.", "Add --wait.")
    of_model = ModelOptions.of_texts(shape, None, traced=traced)
    options = RemoteJobOptions(
        trials=trials,
        seconds=seconds,
        plateau_trials=plateau,
        target_latency_us=target_latency_us,
        device_seconds=device_seconds,
        deadline_s=deadline,
        strategy=strategy,
        seed=seed,
        fresh=fresh,
        abi=abi,
        protocol=protocol,
        priority=priority,
        device_class_id=device_class,
        labels={"module": module, **labels_of_texts(label or ())},
    )
    options.require_usable()
    folder = None if output is None else output_folder(output)
    file = model_file(module)
    request = request_of_texts(
        parse_module_source(module) if file is None else unread(file),
        function=function,
        all_functions=all_functions,
        target=target,
        abi=abi,
        space=space,
        seed_traces=seed_trace,
        inputs=inputs,
        intrinsics=intrinsics,
    )
    return _submit(request, file, of_model, options, api, folder, keeps_model=keep_model, wait=wait, as_json=as_json)


def _submit(
    request: IntakeRequest,
    file: ModelFile | None,
    of_model: ModelOptions,
    options: RemoteJobOptions,
    api: str | None,
    folder: Path | None,
    *,
    keeps_model: bool,
    wait: bool,
    as_json: bool,
) -> int:
    from tunefarm.client import Client
    from tunefarm.remote.model_conversion import convert_with_model

    with Client(api, fork_server=take_fork_server()) as client:
        conversion, model = convert_with_model(client.converter, request, file, of_model, keeps_model=keeps_model)
        for note in conversion.notes:
            complain(note)
        device_class_id = class_of_devices(options.device_class_id, client.devices.list)
        options = options.model_copy(update={"device_class_id": device_class_id})
        job = client.submit(conversion, options, model)
        untuned = conversion.untuned_functions or job.view.spec.untuned_functions
        if untuned:
            complain(untuned_text(untuned))
        for note in job.notes:
            complain(note)
        if wait:
            return _wait(job, folder, api, as_json=as_json)
    if as_json:
        print_json(job.view.model_dump(mode="json"))
    else:
        say(job.job_id)
        tell_next(watching(job.job_id, api))
    return ExitCode.FINE


def _wait(job: "RemoteJob", folder: Path | None, api: str | None, *, as_json: bool) -> int:

    from tunefarm.artifact.artifact_folder import task_folder
    from tunefarm.remote.job_report import tell_end, tell_next_of

    complain(f"job {job.job_id}; Ctrl-C leaves it running, tunefarm finish {job.job_id} ends its search")
    job.wait()
    code = tell_end(job, as_json=as_json)
    if code != ExitCode.FINE or folder is None:
        tell_next_of(job, api, as_json=as_json)
        return code
    written = []
    artifacts = job.artifacts()
    for number, artifact in enumerate(artifacts):
        if artifact is not None:
            written.append(artifact.write(task_folder(folder, number, len(artifacts))).parent)
            complain(f"library and manifest are in {written[-1]}")
    if written and not as_json:
        tell_next(trying(written[0]))
    return code
