"""From what a user names to what a service takes: TVM JSON, traces and sketches. Code never leaves this machine."""

import json
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from pydantic import Field

from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest, SeedSource
from tunefarm.intake.module_source import JsonSource
from tunefarm.intake.python_input import PythonInput
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.input_spec import InputSpec
from tunefarm_schemas.tuning.trace import Space, Trace

if TYPE_CHECKING:
    from tunefarm_sandbox.fork_server.fork_server import ForkServer

SPACE_NOTE: Final = "space: the schedule function was run for this host's target"
HOST: Final = "host"


class SentModule(Frozen):
    """A module as TVM JSON, and what to call it; an empty name leaves that to its functions."""

    name: str
    text: str = Field(repr=False)


class Conversion(Frozen):
    """What is sent of a module, a target and schedules. A target of None leaves the choice to the service."""

    modules: tuple[SentModule, ...]
    function: str | None = None
    all_functions: bool = False
    target: str | None = None
    """JSON of an object, or a name that the service knows: of a preset, a tag of TVM's, or the id of a target."""
    space: Space = Space()
    seed_traces: tuple[Trace, ...] = ()
    input_specs: tuple[InputSpec, ...] = ()
    notes: tuple[str, ...] = ()
    untuned_functions: tuple[str, ...] = ()
    """Functions of the module that are not TIR, where the module was read here."""


class Converter:
    """Converts, in confined children of a process with TVM that is started when it is first needed."""

    def __init__(self, zygote: "ForkServer | None" = None) -> None:
        """``zygote`` is one that was started earlier; it is ended with this."""
        self._zygote = zygote

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def zygote(self) -> "ForkServer":
        """The process that confined children are forked from, started when it is first needed."""
        from tunefarm.startup.zygote import start_intake_zygote

        if self._zygote is None:
            self._zygote = start_intake_zygote()
        return self._zygote

    def close(self) -> None:
        """End the process."""
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def convert(self, request: IntakeRequest, given: PythonInput | None = None) -> Conversion:
        """Convert what was named. ``given`` holds the schedules that only the caller's own process can make.

        Raises:
            BadInput: it cannot be understood.
        """
        has_functions = given is not None and bool(given.space_function or given.seed_functions)
        plain = None if has_functions else without_tvm(request)
        if plain is not None:
            return plain
        from tunefarm.intake.understanding import understand

        # What arguments hold, and what a name stands for, is not looked at here: neither need go through the child.
        target = request.target if _is_read_here(request) else ""
        asked = request.model_copy(update={"elsewhere": True, "inputs": (), "target": target, "callees": None})
        answer = understand(self.zygote, asked)
        return _conversion(request, answer if given is None else given.complete(answer))


def without_tvm(request: IntakeRequest) -> Conversion | None:
    """The conversion where there is nothing to convert, because all of it is JSON or a name already; None otherwise.

    The service checks it as it checks everything.

    Raises:
        BadInput: a seed is not JSON.
    """
    needs_tvm = request.space is not None or any(seed.function is not None for seed in request.seeds)
    target = request.target.strip()
    if needs_tvm or not isinstance(request.module, JsonSource) or _is_this_host(target):
        return None
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
    """Whether the target is understood on this machine, and not left to the service or named for it."""
    target = request.target.strip()
    return target.startswith("{") or _is_this_host(target)


def _conversion(request: IntakeRequest, answer: IntakeAnswer) -> Conversion:
    is_read_here = _is_read_here(request)
    # What was filled in for this host does not concern a service that chooses for itself.
    notes = tuple(answer.notes) if is_read_here else (SPACE_NOTE,) if answer.space.sketches else ()
    return Conversion(
        modules=tuple(SentModule(name=workload.name, text=workload.module_json) for workload in answer.workloads),
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
        problem = f"the example for {examples[0]} stays on this machine; a service takes ranges only."
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
