"""``tunefarm tune``: tunes a module on this machine."""

import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tunefarm.frontend.model_file import model_file, unread
from tunefarm.frontend.model_source import ModelFile
from tunefarm.intake.intake_request import IntakeRequest
from tunefarm.intake.module_source import ModuleSource, parse_module_source
from tunefarm.intake.untuned_functions import untuned_text
from tunefarm.model.sizes.wanted_buckets import MAX_BUCKETS, wanted_buckets
from tunefarm.options.bucket_options import BucketOption, ExactBucketsOption, MaxBucketsOption, PadOption
from tunefarm.options.intake_options import IntrinsicsOption, request_of_texts
from tunefarm.options.job_options import JobOptions, output_folder
from tunefarm.options.library_option import (
    DEFAULT_RACE_S,
    LibrariesOption,
    LibraryOption,
    RaceSecondsOption,
    library_choice,
)
from tunefarm.options.measured_here import require_measured_here
from tunefarm.options.model_options import ModelOptions
from tunefarm.startup.prestarted_fork_server import take_fork_server
from tunefarm.terminal.console import complain, say
from tunefarm.terminal.exit_code import ExitCode
from tunefarm.terminal.next_step import building, tell_next, trying
from tunefarm.terminal.resume_option import LATEST
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.job import Job, JobOutcome

if TYPE_CHECKING:
    from tunefarm.intake.intake_request import IntakeAnswer
    from tunefarm.local.machine import LocalMachine
    from tunefarm.local.model_job import ModelJob
    from tunefarm.model.race.library_race import LibraryChoice
    from tunefarm.model.tuned.tuned_build import BuiltModel
    from tunefarm.terminal.progress_display import ProgressDisplay
    from tunefarm_schemas.views.jobs.summary import JobSummary
    from tunefarm_services.settings import Settings

StrategyName = Literal["random", "evolutionary", "tvm", "replay"]
AbiName = Literal["stable", "packed"]


def tune(
    module: Annotated[
        str | None,
        typer.Argument(
            help="TVMScript or te file, TVM JSON, FILE.py:NAME, te:NAME, builtin:NAME[:SHAPE] or a model's file."
        ),
    ] = None,
    function: Annotated[str | None, typer.Option(help="One of the module's functions.")] = None,
    all_functions: Annotated[bool, typer.Option("--all-functions", help="All of the module's functions.")] = False,
    target: Annotated[
        str, typer.Option(help="host, host:THREADS, a preset such as x86-64-v3, or a TVM target as JSON.")
    ] = "",
    trials: Annotated[int, typer.Option(help="Maximum number of candidates to measure.")] = 512,
    seconds: Annotated[float | None, typer.Option(help="Maximum duration of the search.")] = None,
    plateau: Annotated[int | None, typer.Option(help="Stop after this many trials without a gain.")] = None,
    target_latency_us: Annotated[float | None, typer.Option(help="Stop at this latency, in microseconds.")] = None,
    strategy: Annotated[StrategyName, typer.Option(help="How candidates are chosen.")] = "evolutionary",
    space: Annotated[str | None, typer.Option(help="FILE.py:FUNCTION, your schedule function.")] = None,
    seed_trace: Annotated[
        list[str] | None,
        typer.Option(help="Schedule to measure first: JSON of a trace, or FILE.py:FUNCTION. Repeatable."),
    ] = None,
    intrinsics: IntrinsicsOption = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    resume: Annotated[
        str | None, typer.Option(metavar="[JOB]", help="Resume this or the latest job, with its original options.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore existing records and trials.")] = False,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="NAME=uniform:LOW:HIGH, integers:LOW:HIGH, normal, positive or @FILE.npy. Repeatable."
        ),
    ] = None,
    protocol: Annotated[str, typer.Option(help="Timing protocol: cpu-hot-cache or cpu-cold-cache.")] = "cpu-hot-cache",
    abi: Annotated[AbiName, typer.Option(help="packed permits a changed layout of constant arguments.")] = "stable",
    require_confinement: Annotated[
        bool, typer.Option("--require-confinement", help="Fail if this host cannot fully confine candidates.")
    ] = False,
    libraries: LibrariesOption = False,
    library: LibraryOption = None,
    race_seconds: RaceSecondsOption = DEFAULT_RACE_S,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N,N,...", help="Of a model: sizes of an input with dynamic dimensions. Repeatable."),
    ] = None,
    bucket: BucketOption = None,
    pad: PadOption = None,
    max_buckets: MaxBucketsOption = MAX_BUCKETS,
    exact_buckets: ExactBucketsOption = False,
    functions: Annotated[
        str | None,
        typer.Option(metavar="FILE.py", help="Of a model: registers the external functions that it calls."),
    ] = None,
    traced: Annotated[bool, typer.Option("--traced", help="Trace a torch module with torch.fx.")] = False,
    output: Annotated[str | None, typer.Option(help="Folder for the library, a plot and a report.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Tune a tensor program, or the functions of a model, on this machine.

    Running the same command again returns the stored result. Ctrl-C ends the search early, and its best schedule is
    verified and built; a second Ctrl-C pauses the job, which --resume continues.
    """
    buckets = wanted_buckets(bucket or (), pad or (), max_buckets, is_exact=exact_buckets)
    of_model = replace(ModelOptions.of_texts(shape, functions, traced=traced), buckets=buckets)
    options = JobOptions(
        trials=trials,
        seconds=seconds,
        plateau_trials=plateau,
        target_latency_us=target_latency_us,
        strategy=strategy,
        seed=seed,
        fresh=fresh,
        abi=abi,
        protocol=protocol,
        labels=of_model.labels if module is None else {"module": module, **of_model.labels},
    )
    from tunefarm_services.settings import Settings

    options.require_usable()
    folder = None if output is None else output_folder(output)
    file = None if resume is not None or module is None else model_file(module)
    source = None if resume is not None or file is not None else _module_source(module)
    if resume is None and module is not None:
        require_measured_here(target, module)
    if file is not None:
        source = unread(file)
    request = None
    if source is not None:
        request = request_of_texts(
            source,
            function=function,
            all_functions=all_functions,
            target=target,
            abi=abi,
            space=space,
            seed_traces=seed_trace,
            inputs=inputs,
            intrinsics=intrinsics,
        )
    settings = Settings()
    if require_confinement:
        settings = settings.model_copy(update={"require_confinement": True})
    choice = library_choice(race_seconds, library, is_asked=libraries)
    return _tune(request, file, of_model, options, resume, folder, settings, choice, as_json=as_json)


def _module_source(text: str | None) -> ModuleSource:
    if text is None:
        raise BadInput("module", "no module was given.", "Try: tunefarm tune builtin:matmul_bias_relu")
    return parse_module_source(text)


def _tune(
    request: IntakeRequest | None,
    file: ModelFile | None,
    of_model: ModelOptions,
    options: JobOptions,
    resume: str | None,
    folder: Path | None,
    settings: "Settings",
    libraries: "LibraryChoice | None",
    *,
    as_json: bool,
) -> int:
    from tunefarm.local.machine import LocalMachine
    from tunefarm.local.model_job import ModelJob
    from tunefarm.terminal.progress_display import progress_display

    with LocalMachine(settings, fork_server=take_fork_server()) as machine:
        with progress_display() as display:
            model = None if request is None else ModelJob(machine, file or request.module, of_model)
            job, answer = _job(machine, request, model, options, resume, display)
            summary = _work(machine, job, display)
            built = _built(machine, job, summary, model, answer, folder, display, libraries)
        numpy_latency_s = _numpy_latency_s(machine, job, summary)
        _write_outputs(machine, summary, folder, numpy_latency_s)
    return _print_end(summary, folder, numpy_latency_s, built, as_json=as_json)


def _built(
    machine: "LocalMachine",
    job: Job,
    summary: "JobSummary",
    model: "ModelJob | None",
    answer: "IntakeAnswer | None",
    folder: Path | None,
    display: "ProgressDisplay",
    libraries: "LibraryChoice | None",
) -> "BuiltModel | None":
    """Build a tuned model into ``folder``, or into one of this process if there is none; None for other jobs."""
    from tunefarm.local.model_job import kept_folder, resumed_model

    if libraries is not None and not job.spec.of_model:
        display.say("libraries run parts of models: this is a function")
    if not job.spec.of_model or summary.outcome is not JobOutcome.SUCCEEDED:
        return None
    display.say("builds the model with its records and without a trial, and times both")
    if model is None or answer is None:
        model, answer = resumed_model(machine, job)
    return model.build(
        answer, job, summary, folder or kept_folder(), lambda stage: display.say(f"model: {stage}"), libraries
    )


def _job(
    machine: "LocalMachine",
    request: IntakeRequest | None,
    model: "ModelJob | None",
    options: JobOptions,
    resume: str | None,
    display: "ProgressDisplay",
) -> "tuple[Job, IntakeAnswer | None]":
    if request is None or model is None:
        from tunefarm.terminal.progress_display import resumption_line

        job = machine.unfinished_job(None if resume == LATEST else resume, options.labels)
        display.say(resumption_line(job))
        return job, None
    # Start before waiting for the answer: the database opens and the farm starts while TVM loads.
    machine.prepare_farm()
    answer = model.understand(request)
    for note in answer.notes:
        display.say(note)
    if answer.untuned_functions:
        display.say(untuned_text(answer.untuned_functions))
    labelled = options.model_copy(update={"labels": {**options.labels, **model.labels}})
    return machine.create_job(answer, labelled), answer


def _work(machine: "LocalMachine", job: Job, display: "ProgressDisplay") -> "JobSummary":
    from tunefarm.cli.interruption import Interruption
    from tunefarm.startup.process_start import process_started_at_s
    from tunefarm_sandbox.confinement.abilities import abilities
    from tunefarm_sandbox.fork_server.fork_server import ForkFailed

    for lack in abilities().missing():
        display.say(f"candidates are not fully confined: {lack}; see: tunefarm doctor")

    try:
        supervisor = machine.supervisor(started_at_s=process_started_at_s(), on_progress=display.show)
        stop_requests = supervisor.stop_requests
        with Interruption(stop_requests.pause, display.say, finish=stop_requests.finish):
            return machine.work(supervisor, job)
    except ForkFailed as error:
        fix = f"Everything measured is kept; resume with: tunefarm tune --resume {job.job_id}"
        raise BadInput("sandbox", f"{error.reason.rstrip('.')}.", fix) from error


def _numpy_latency_s(machine: "LocalMachine", job: Job, summary: "JobSummary") -> float | None:
    from tunefarm.builtin.numpy_latency import numpy_latency_s

    if summary.outcome is not JobOutcome.SUCCEEDED or summary.of_model:
        return None
    if all(task.answered_from_store for task in summary.tasks):
        return None  # nothing was measured, and timing NumPy would dominate the command's duration
    return numpy_latency_s(machine.store.targets, job)


def _write_outputs(
    machine: "LocalMachine",
    summary: "JobSummary",
    folder: Path | None,
    numpy_latency_s: float | None,
) -> None:
    if folder is None or summary.outcome is not JobOutcome.SUCCEEDED:
        return
    from tunefarm.local.output_folder import write_outputs
    from tunefarm.records.local_records import schedule_view
    from tunefarm.report.plots import prepare_matplotlib
    from tunefarm.startup.installation import private_folder
    from tunefarm_services.store import LOCAL_TENANT

    prepare_matplotlib(private_folder(machine.settings, "matplotlib"))
    callees = machine.settings.callees.get(LOCAL_TENANT, ())
    view = partial(schedule_view, machine)
    write_outputs(machine.store, summary, folder, numpy_latency_s, callees, view)


def _print_end(
    summary: "JobSummary",
    folder: Path | None,
    numpy_latency_s: float | None,
    built: "BuiltModel | None",
    *,
    as_json: bool,
) -> int:
    from tunefarm.terminal.summary_text import summary_json, summary_text

    model = None if built is None else built.figures()
    say(summary_json(summary, numpy_latency_s, model) if as_json else summary_text(summary, numpy_latency_s, model))
    if summary.outcome is None:
        found = any(task.best_latency_s is not None for task in summary.tasks)
        what = "interrupted" if found else "interrupted before any candidate was measured"
        complain(f"{what}; the job is paused, and everything measured is kept")
        tell_next(f"tunefarm tune --resume {summary.job_id}")
        return ExitCode.INTERRUPTED
    if summary.outcome is not JobOutcome.SUCCEEDED:
        complain(f"tunefarm: {summary.message}")
        if not as_json:
            tell_next(f"tunefarm report {summary.job_id}")
        return ExitCode.NO_VALID_KERNEL
    if summary.message and not all(task.answered_from_store for task in summary.tasks):
        complain(f"tunefarm: {summary.message}")
    if not as_json:
        _tell_next(summary, folder, built)
    return ExitCode.FINE


def _tell_next(summary: "JobSummary", folder: Path | None, built: "BuiltModel | None") -> None:
    from tunefarm.artifact.artifact_folder import task_folder

    if summary.of_model:
        if folder is not None:
            say(f"the model and the report are in {folder}")
            if built is not None and built.manifest.callees:
                tell_next(f"{trying(folder)} --functions FILE.py")
                return
            tell_next(f"python -c {shlex.quote(f'import tunefarm; print(tunefarm.load_model({str(folder)!r}))')}")
        else:
            tell_next(f"tunefarm report {summary.job_id}")
        return
    if folder is not None:
        say(f"library, manifest, plot and report are in {folder}")
        tell_next(trying(task_folder(folder, 0, len(summary.tasks))))
    elif summary.tasks[0].record_id is not None:
        tell_next(building(summary.tasks[0].record_id))
