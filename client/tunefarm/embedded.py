"""Tuning on this machine from Python."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunefarm.frontend.framework import is_torch_module
from tunefarm.frontend.model_file import model_file, unread
from tunefarm.intake.python_input import PythonInput
from tunefarm.intake.tvm_objects import TargetLike
from tunefarm.intake.untuned_functions import warn_of_untuned
from tunefarm.local.machine import LocalMachine
from tunefarm.local.model_job import ModelJob, kept_folder
from tunefarm.model.sizes.wanted_buckets import wanted_buckets
from tunefarm.options.input_option import inputs_of_python
from tunefarm.options.job_options import JobOptions
from tunefarm.options.measured_here import require_measured_here
from tunefarm.options.model_options import ModelOptions, functions_file
from tunefarm.tuning_result import TuningResult
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.job import JobOutcome, Strategy
from tunefarm_schemas.tuning.workload import Abi
from tunefarm_schemas.views.jobs.summary import Progress
from tunefarm_services.settings import Settings


def exported_if_torch(module: Any, example_inputs: Any) -> Any:
    """The path of a file with the exported program if it is a torch module, else ``module`` itself.

    Raises:
        BadInput: it cannot be exported.
    """
    if not is_torch_module(module):
        return module
    from tunefarm.frontend.pytorch.module_export import export_module, save_exported

    return str(save_exported(export_module(module, example_inputs), kept_folder() / f"{type(module).__name__}.pt2"))


def tune(
    module: Any,
    *,
    target: TargetLike = None,
    trials: int = JobOptions.model_fields["trials"].default,
    function: str | None = None,
    space: str | Callable[[Any], Any] | None = None,
    seed_traces: tuple[Any, ...] | list[Any] = (),
    intrinsics: str | None = None,
    strategy: Strategy = "evolutionary",
    seed: int = 0,
    seconds: float | None = None,
    fresh: bool = False,
    abi: Abi = "stable",
    inputs: Mapping[str, Any] | None = None,
    protocol: str = JobOptions.model_fields["protocol"].default,
    example_inputs: Any = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    buckets: Sequence[str] = (),
    pad: Mapping[str, float] | None = None,
    exact_buckets: bool = False,
    functions: str | Path | None = None,
    on_progress: "Callable[[Progress], None]" = lambda _: None,
    settings: Settings | None = None,
) -> TuningResult:
    """Tune a function or a model on this machine. Warns about functions of other kinds than TIR, which stay untuned.

    A torch module, and a module with a Relax function, are models unless ``function`` names a TIR function: their
    functions are tuned under one budget, and the model is built from their records and timed beside its build without a
    trial.

    Args:
        module: an IRModule, a PrimFunc, a list of te tensors, or text as the command line takes it: a file,
            ``FILE.py:NAME``, ``te:NAME``, ``builtin:NAME``, or the file of a model, such as ``net.onnx``; or a torch
            module.
        target: a ``tvm.target.Target``, a dictionary or its JSON, or a preset such as ``x86-64-v3``. Default: this
            host's processor.
        trials: the maximum number of candidates to measure.
        function: the function to tune; required if the module has several.
        space: a schedule function that samples its decisions, or ``FILE.py:FUNCTION``. Default: TVM's rules.
        seed_traces: schedules to measure first: traces (TVM's, their JSON, or ours) or schedule functions.
        intrinsics: a Python file that registers the tensor intrinsics that ``space`` and ``seed_traces`` name. Those
            that this process registers are known to its own functions without it.
        strategy: how candidates are chosen.
        seed: the random seed.
        seconds: the maximum duration of the search.
        fresh: ignore the records and trials in the store.
        abi: ``stable`` keeps the layout of constant arguments, ``packed`` may change it.
        inputs: the contents of arguments by name: ``uniform:0:1``, ``integers:0:1000``, ``normal``, ``positive``,
            ``@FILE.npy``, or an array. Default: random numbers, and valid indices for integer arguments.
        protocol: the timing protocol: ``cpu-hot-cache`` or ``cpu-cold-cache``.
        example_inputs: what a torch module is exported with: a tuple, one tensor, or a dictionary of keyword arguments.
        shapes: of a model, sizes of inputs with dynamic dimensions, by name.
        buckets: of a model's file, sizes of dynamic dimensions, such as ``["batch=1,8,32"]``: all are tuned in one job.
        pad: what inputs are padded with, by name; zero for others.
        exact_buckets: serve exactly the sizes of ``buckets``, without padding.
        functions: of a model, a Python file that registers the external functions that it calls.
        on_progress: called several times a second.
        settings: the location of the store. Default: the environment.

    Raises:
        BadInput: an argument is invalid, or the function cannot be tuned.
    """
    began_s = time.time()
    options = JobOptions(
        trials=trials, seconds=seconds, strategy=strategy, seed=seed, fresh=fresh, abi=abi, protocol=protocol
    )
    options.require_usable()
    padding = [f"{name}={value}" for name, value in (pad or {}).items()]
    of_model = ModelOptions(
        shapes or {},
        functions_file=None if functions is None else functions_file(str(functions)),
        buckets=wanted_buckets(buckets, padding, is_exact=exact_buckets),
    )
    module = exported_if_torch(module, example_inputs)
    with LocalMachine(settings) as machine:
        machine.prepare_farm()
        file = model_file(module) if isinstance(module, str) else None
        given = PythonInput.of(
            module if file is None else unread(file),
            target=target,
            function=function,
            space=space,
            seed_traces=seed_traces,
            abi=abi,
            intrinsics=intrinsics,
        )
        model = ModelJob(machine, file or given.module, of_model)
        request = given.request(usable_physical_cores()).model_copy(update={"inputs": inputs_of_python(inputs or {})})
        require_measured_here(request.target)
        answer = given.complete(model.understand(request))
        warn_of_untuned(answer.untuned_functions)
        job = machine.create_job(answer, options.model_copy(update={"labels": {**options.labels, **model.labels}}))
        summary = machine.work(machine.supervisor(started_at_s=began_s, on_progress=on_progress), job)
        built = None
        if answer.calls and summary.outcome is JobOutcome.SUCCEEDED:
            built = model.build(answer, job, summary, kept_folder())
        return TuningResult.of(machine.store, summary, built)
