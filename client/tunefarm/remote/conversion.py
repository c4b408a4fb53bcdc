"""Converts modules and schedules to TVM JSON, traces and sketches for a service. Code never leaves this machine."""

import json
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from pydantic import Field

from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest, SeedSource
from tunefarm.intake.module_source import EXTERN_FUNCTION, JsonSource, ModuleSource, PythonSource
from tunefarm.intake.python_input import PythonInput
from tunefarm.options.model_options import ModelOptions
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.input_spec import InputSpec
from tunefarm_schemas.tuning.trace import Space, Trace

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server.fork_server import ForkServer

DEFAULT_OPTIONS: Final = ModelOptions()
SPACE_NOTE: Final = "space: the schedule function ran with this host's target"
HOST: Final = "host"


class SentModule(Frozen):
    """A module as TVM JSON with a name; an empty name means the names of its functions."""

    name: str
    text: str = Field(repr=False)
    weight: float = 1.0


class Conversion(Frozen):
    """A converted module, target and schedules. A target of None leaves the choice to the service."""

    modules: tuple[SentModule, ...]
    function: str | None = None
    all_functions: bool = False
    target: str | None = None
    """A JSON object, or a name that the service knows: a preset, a TVM tag, or the id of a target."""
    space: Space = Space()
    seed_traces: tuple[Trace, ...] = ()
    input_specs: tuple[InputSpec, ...] = ()
    notes: tuple[str, ...] = ()
    untuned_functions: tuple[str, ...] = ()
    """Functions of the module that are not TIR, if the module was read on this machine."""
    is_of_frontend: bool = False
    """Whether a frontend converted the module."""
    of_model: bool = False
    """Whether the modules are the functions of one model, and their weights its calls in a run."""


class Converter:
    """Converts in confined children of a fork server, which starts on first use."""

    def __init__(self, fork_server: "ForkServer | None" = None) -> None:
        """``fork_server`` is a fork server that is already running; ``close`` ends it."""
        self._fork_server = fork_server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def fork_server(self) -> "ForkServer":
        """The fork server, started on first use."""
        from tunefarm.startup.fork_servers import start_intake_fork_server

        if self._fork_server is None:
            self._fork_server = start_intake_fork_server()
        return self._fork_server

    def close(self) -> None:
        """End the fork server."""
        if self._fork_server is not None:
            self._fork_server.close()
            self._fork_server = None

    def convert(
        self,
        request: IntakeRequest,
        given: PythonInput | None = None,
        *,
        prepares_here: bool = False,
        of_model: ModelOptions = DEFAULT_OPTIONS,
    ) -> Conversion:
        """Convert a request. ``given`` contains schedule functions of the caller's own process.

        ``prepares_here``: split a model into its functions on this machine, which takes its memory and not the
        service's. ``of_model`` is for the frontend of a torch module or the like.

        Raises:
            BadInput: any part of the request is invalid.
        """
        has_functions = given is not None and bool(given.space_function or given.seed_functions)
        plain = None if has_functions or prepares_here else without_tvm(request)
        if plain is not None:
            return plain
        from tunefarm.intake.understanding import understand

        # Inputs and named targets are resolved by the service, so the child does not receive them.
        target = request.target if _is_read_here(request) else ""
        child_request = request.model_copy(update={"elsewhere": True, "inputs": (), "target": target, "callees": None})
        answer = understand(self.fork_server, child_request, lambda: self._converted(request.module, of_model))
        return _conversion(request, answer if given is None else given.complete(answer))

    def _converted(self, source: ModuleSource, options: ModelOptions) -> JsonSource:
        """The Relax module of a model in a Python file, without its weights."""
        from tunefarm.frontend.model_import import import_model

        assert isinstance(source, PythonSource), "only objects of Python files are converted by frontends"
        model = import_model(self.fork_server, source, options.shapes, traced=options.is_traced)
        return JsonSource(name=source.symbol or Path(source.path).stem, text=model.module_json)


def without_tvm(request: IntakeRequest) -> Conversion | None:
    """The conversion of a request that consists of JSON and names only, which needs no TVM; None for any other.

    The service validates it like any request.

    Raises:
        BadInput: a seed trace is not JSON.
    """
    needs_tvm = (
        request.intrinsics_file is not None
        or request.space is not None
        or any(seed.function is not None for seed in request.seeds)
    )
    target = request.target.strip()
    if needs_tvm or not isinstance(request.module, JsonSource) or _is_this_host(target):
        return None
    if f'"{EXTERN_FUNCTION}"' in request.module.text:
        return None  # a service accepts no module that calls functions outside of it
    return Conversion(
        modules=(SentModule(name="", text=request.module.text),),
        function=request.function,
        all_functions=request.all_functions,
        target=target or None,
        seed_traces=tuple(_trace(seed) for seed in request.seeds),
        input_specs=_input_specs(request),
    )


def _is_this_host(target: str) -> bool:
    return target.partition(":")[0] == HOST


def _is_read_here(request: IntakeRequest) -> bool:
    """Whether the target is read on this machine, and not chosen or looked up by the service."""
    target = request.target.strip()
    return target.startswith("{") or _is_this_host(target)


def _conversion(request: IntakeRequest, answer: IntakeAnswer) -> Conversion:
    is_read_here = _is_read_here(request)
    # Omit notes on this host's defaults if the service chooses the target.
    notes = tuple(answer.notes) if is_read_here else (SPACE_NOTE,) if answer.space.sketches else ()
    return Conversion(
        modules=tuple(
            SentModule(name=workload.name, text=workload.module_json, weight=calls)
            for workload, calls in zip(answer.workloads, answer.calls or repeat(1.0), strict=False)
        ),
        of_model=bool(answer.calls),
        is_of_frontend=answer.is_of_frontend,
        target=answer.target.canonical if is_read_here else request.target.strip() or None,
        space=answer.space,
        seed_traces=answer.seed_traces,
        input_specs=_input_specs(request),
        notes=notes,
        untuned_functions=answer.untuned_functions,
    )


def _input_specs(request: IntakeRequest) -> tuple[InputSpec, ...]:
    examples = [each.argument for each in request.inputs if each.npy is not None]
    if examples:
        problem = f"the example for {examples[0]} cannot be sent; a service accepts only ranges."
        raise BadInput("input", problem, "Write NAME=uniform:LOW:HIGH or NAME=integers:LOW:HIGH.")
    return tuple(
        InputSpec(argument=each.argument, kind=each.kind, low=each.low, high=each.high) for each in request.inputs
    )


def _trace(seed: SeedSource) -> Trace:
    try:
        return Trace.from_json(json.loads(seed.text))
    except (ValueError, RecursionError) as error:
        fix = "Give the JSON of a trace, or FILE.py:FUNCTION."
        raise BadInput("seed_traces", f"{seed.name} is not JSON ({error}).", fix) from error
