"""The arguments of ``Client.tune``."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, ParamSpec, TypedDict, TypeVar, Unpack

from pydantic import ValidationError

from tunefarm.frontend.model_file import model_file, unread
from tunefarm.frontend.model_source import ModelFile
from tunefarm.intake.intake_request import IntakeRequest
from tunefarm.intake.python_input import PythonInput
from tunefarm.intake.tvm_objects import TargetLike
from tunefarm.options.input_option import inputs_of_python
from tunefarm.options.model_options import ModelOptions
from tunefarm.remote.job_options import RemoteJobOptions
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.host_cores import usable_physical_cores
from tunefarm_schemas.tuning.job import Strategy
from tunefarm_schemas.tuning.workload import Abi

P = ParamSpec("P")
T = TypeVar("T")


class TuneArguments(TypedDict, total=False):
    """The arguments of ``Client.tune`` besides the module; all are optional.

    target: a ``tvm.target.Target``, a dictionary or its JSON, ``host`` for this host, or the name of one of the
        service's presets (``x86-64-v3``) or of a TVM tag. Default: the service's choice.
    function, all_functions: the functions to tune if the module has several.
    space: a schedule function that samples its decisions, or ``FILE.py:FUNCTION``. Default: TVM's rules.
    seed_traces: schedules to measure first: traces (TVM's, their JSON, or ours) or schedule functions.
    intrinsics: a Python file that registers the tensor intrinsics that these schedules name.
    trials, seconds, plateau_trials, target_latency_us, device_seconds: limits; the search ends at the first that is
        reached.
    deadline_s: seconds after which the job ends with its best so far, including time in the queue.
    strategy, seed, fresh, abi, protocol: as for ``tunefarm tune``.
    inputs: the contents of arguments by name: ``uniform:0:1``, ``integers:0:1000``, ``normal`` or ``positive``.
    priority: jobs of higher priority start first.
    device_class_id: the device class to measure on. Default: the service's choice.
    labels: names and values that identify the job in lists.
    shapes: of a model's file, sizes of inputs with dynamic dimensions, by name.
    keep_model: send the model of a file with its weights too, so that bundles of the job have all of it, and not
        its functions only. A model that is given as an IRModule or its JSON is kept with the constants that it has.
    """

    target: TargetLike
    function: str | None
    all_functions: bool
    space: str | Callable[[Any], Any] | None
    seed_traces: Sequence[Any]
    intrinsics: str | None
    trials: int
    seconds: float | None
    plateau_trials: int | None
    target_latency_us: float | None
    device_seconds: float | None
    deadline_s: float | None
    strategy: Strategy
    seed: int
    fresh: bool
    abi: Abi
    protocol: str
    inputs: Mapping[str, Any]
    priority: int
    device_class_id: str | None
    labels: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    keep_model: bool


_DEFAULTS: Final[Mapping[str, Any]] = {
    "all_functions": False,
    "seed_traces": (),
    "inputs": {},
    "shapes": {},
    "keep_model": False,
    **{name: field.get_default(call_default_factory=True) for name, field in RemoteJobOptions.model_fields.items()},
}


@dataclass(frozen=True)
class TuneRequest:
    """The arguments of a call of ``tune``, split into those that are converted and the job's options."""

    given: PythonInput
    intake: IntakeRequest
    file: ModelFile | None
    """The file of a model, which is read in the place of the module of ``intake``."""
    of_model: ModelOptions
    options: RemoteJobOptions
    keeps_model: bool

    @classmethod
    def of(cls, module: Any, **arguments: Unpack[TuneArguments]) -> "TuneRequest":
        """Split and validate the arguments.

        Raises:
            BadInput: an argument is invalid.
        """
        of_input = {"target", "function", "all_functions", "space", "seed_traces", "intrinsics", "inputs"}
        of_input |= {"shapes", "keep_model"}
        file = model_file(module) if isinstance(module, str) else None
        given = PythonInput.of(
            module if file is None else unread(file),
            target=arguments.get("target"),
            function=arguments.get("function"),
            space=arguments.get("space"),
            seed_traces=arguments.get("seed_traces", ()),
            abi=arguments.get("abi", "stable"),
            intrinsics=arguments.get("intrinsics"),
        )
        options = _options({name: value for name, value in arguments.items() if name not in of_input})
        options.require_usable()
        intake = given.request(usable_physical_cores())
        all_functions = arguments.get("all_functions", False)
        inputs = inputs_of_python(arguments.get("inputs", {}))
        intake = intake.model_copy(update={"all_functions": all_functions, "inputs": inputs})
        sizes = ModelOptions(dict(arguments.get("shapes", {})))
        return cls(given, intake, file, sizes, options, keeps_model=arguments.get("keep_model", False))


def _options(values: Mapping[str, object]) -> RemoteJobOptions:
    try:
        return RemoteJobOptions.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise BadInput(field, f"{first['msg']}.", "See the documentation of tune.") from error


def takes_tune_arguments(method: Callable[P, T]) -> Callable[P, T]:
    """Show each of ``TuneArguments`` in the signature of ``method`` instead of ``**arguments``."""
    shown = inspect.signature(method)
    kept = [each for each in shown.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    named = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in TuneArguments.__annotations__.items()
    ]
    method.__signature__ = shown.replace(parameters=[*kept, *named])  # type: ignore[attr-defined]
    return method
