"""Converts the arguments of the Python API into a request to the intake child."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest, ScheduleSource, SeedSource
from tunefarm.intake.module_source import JsonSource, ModuleSource, parse_module_source, readable_file, split_symbol
from tunefarm.intake.schedules.own_schedule import own_sketches, own_trace
from tunefarm.intake.tvm_objects import TargetLike, module_text, target_text
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_schemas.tuning.workload import Abi

ScheduleFunction = Callable[[Any], Any]


@dataclass(frozen=True)
class PythonInput:
    """A module, a target and schedules as Python objects.

    Schedule functions of the caller's process run in a fork of it; those in files run in the intake child.
    """

    module: ModuleSource
    function: str | None
    target: str
    abi: Abi
    space_source: ScheduleSource | None
    space_function: ScheduleFunction | None
    seeds: tuple[SeedSource, ...]
    seed_functions: tuple[ScheduleFunction, ...]
    intrinsics_file: str | None = None

    @classmethod
    def of(
        cls,
        module: Any,
        *,
        target: TargetLike,
        function: str | None,
        space: str | ScheduleFunction | None,
        seed_traces: Sequence[Any],
        abi: Abi,
        intrinsics: str | None = None,
    ) -> "PythonInput":
        """Classify the arguments.

        Raises:
            BadInput: an argument has an unsupported type.
        """
        return cls(
            module=_module_source(module),
            function=function,
            target=target_text(target),
            abi=abi,
            space_source=schedule_source("space", space) if isinstance(space, str) else None,
            space_function=space if callable(space) else None,
            seeds=tuple(_seed_source(each) for each in seed_traces if not callable(each)),
            seed_functions=tuple(each for each in seed_traces if callable(each)),
            intrinsics_file=intrinsics_file(intrinsics, is_used=space is not None or bool(seed_traces)),
        )

    def request(self, host_cores: int) -> IntakeRequest:
        """The request to the intake child."""
        return IntakeRequest(
            module=self.module,
            function=self.function,
            all_functions=False,
            target=self.target,
            abi=self.abi,
            space=self.space_source,
            seeds=self.seeds,
            host_cores=host_cores,
            intrinsics_file=self.intrinsics_file,
        )

    def complete(self, answer: IntakeAnswer) -> IntakeAnswer:
        """Add the schedules of this process's functions to ``answer``.

        Raises:
            BadInput: a function fails on the workload.
        """
        if self.space_function is None and not self.seed_functions:
            return answer
        workload, target = answer.workloads[0], answer.target
        space, seeds = answer.space, list(answer.seed_traces)
        if self.space_function is not None:
            space = Space(
                automatic=False, sketches=own_sketches(self.space_function, workload, target, self.intrinsics_file)
            )
        seeds += [own_trace(each, workload, target, self.intrinsics_file) for each in self.seed_functions]
        return answer.model_copy(update={"space": space, "seed_traces": tuple(seeds)})


def schedule_source(field: str, text: str) -> ScheduleSource:
    """Parse ``FILE.py:FUNCTION``.

    Raises:
        BadInput: it has another form, or the file does not exist.
    """
    path, symbol = split_symbol(text)
    fix = "Write it as FILE.py:FUNCTION, a function that takes a schedule and transforms it."
    if not symbol:
        raise BadInput(field, f"{text!r} does not name a function.", fix)
    return ScheduleSource(path=str(readable_file(field, path, fix=fix)), symbol=symbol)


def intrinsics_file(path: str | None, *, is_used: bool) -> str | None:
    """The absolute path of a file that registers tensor intrinsics.

    Raises:
        BadInput: it does not exist, or no schedule of the user's could name its intrinsics.
    """
    if path is None:
        return None
    if not is_used:
        fix = "Add --space FILE.py:FUNCTION with a function that calls schedule.tensorize(block, NAME)."
        raise BadInput("intrinsics", "there is no schedule that uses them.", fix)
    return str(readable_file("intrinsics", path, fix="Name the Python file that registers them."))


def seed_source_of_text(field: str, text: str) -> SeedSource:
    """Parse the path of a trace's JSON, or ``FILE.py:FUNCTION``.

    Raises:
        BadInput: the file does not exist.
    """
    if split_symbol(text)[1]:
        return SeedSource(name=text, function=schedule_source(field, text))
    path = readable_file(field, text, fix="Give the JSON file of a trace, or FILE.py:FUNCTION.")
    return SeedSource(name=path.name, text=path.read_text(encoding="utf-8", errors="replace"))


def _seed_source(value: Any) -> SeedSource:
    if isinstance(value, Trace):
        return SeedSource(name="a trace", text=value.text)
    if isinstance(value, str):
        return seed_source_of_text("seed_traces", value)
    if isinstance(value, list | tuple):
        return SeedSource(name="a trace", text=json.dumps(value))
    if hasattr(value, "as_json"):
        from tunefarm_search.tvm.trace import plain

        return SeedSource(name="a trace", text=json.dumps(plain(value.as_json())))
    kind = type(value).__name__
    raise BadInput("seed_traces", f"a {kind} is not a schedule.", "Give traces, their JSON, or schedule functions.")


def _module_source(module: Any) -> ModuleSource:
    if isinstance(module, JsonSource):
        return module
    return parse_module_source(module) if isinstance(module, str) else JsonSource(name="main", text=module_text(module))
