"""Inputs of functions, as users specify them."""

import time
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

from tests.workers import workloads
from tests.workers.artifact.test_artifact_check import check_exported
from tests.workers.measuring import RunningFarm
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Exported, Purpose, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.conversation.argument import Argument
from tunefarm_workers.correctness.input_check import require_fitting, require_names
from tunefarm_workers.correctness.inputs import INPUT_SETS, InputArray, make_inputs

ROUNDS = 5
"""Other work on the host disturbs one side or the other; a wrong report is wrong in every round."""
BEYOND_FIVE = InputSpec(argument="A", kind="uniform", low=6.0, high=9.0)


def argument(name: str = "A", dtype: str = "float32", **more: object) -> Argument:
    tensor = TensorArgument(name=name, shape=(40, 3), dtype=dtype, is_output=bool(more.get("is_output", False)))
    extent = more.get("index_extent")
    return Argument(tensor=tensor, holds_input=bool(more.get("holds_input", True)), index_extent=extent)  # type: ignore[arg-type]


def spec(kind: str, low: float | None = None, high: float | None = None, name: str = "A") -> InputSpec:
    return InputSpec(argument=name, kind=kind, low=low, high=high)  # type: ignore[arg-type]


def example_of(array: InputArray, name: str = "A") -> tuple[InputSpec, InputExample]:
    example = InputExample(content=array.tobytes())
    return InputSpec(argument=name, kind="example", example_digest=example.example_digest), example


def input_sets(given: Argument, *specs: InputSpec, examples: tuple[InputExample, ...] = ()) -> list[InputArray]:
    arrays = []
    for number in range(INPUT_SETS):
        (array,) = make_inputs(
            (given,), seed=1, set_number=number, distribution="normal", specs=specs, examples=examples
        )
        assert array is not None
        arrays.append(array)
    return arrays


def test_input_sets_differ_within_their_range() -> None:
    first, second, _ = input_sets(argument(), spec("uniform", 6.0, 9.0))
    assert first.dtype == np.float32
    assert first.min() >= 6.0
    assert first.max() <= 9.0
    assert not np.array_equal(first, second)
    whole = input_sets(argument(dtype="int8"), spec("integers", -2.0, 3.0))[0]
    assert set(np.unique(whole)) == {-2, -1, 0, 1, 2}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_uniform_inputs_support_every_float_type(dtype: str) -> None:
    drawn = input_sets(argument(dtype=dtype), spec("uniform", 1.0, 2.0))[0].astype(np.float64)
    assert drawn.min() >= 1.0
    assert drawn.max() <= 2.0


def test_example_is_used_in_every_input_set() -> None:
    array = np.arange(120, dtype=np.float32).reshape(40, 3)
    named, example = example_of(array)
    assert all(np.array_equal(each, array) for each in input_sets(argument(), named, examples=(example,)))


def test_unspecified_inputs_stay_unchanged() -> None:
    plain = input_sets(argument("B"))
    assert all(np.array_equal(a, b) for a, b in zip(plain, input_sets(argument("B"), BEYOND_FIVE), strict=True))


@pytest.mark.parametrize(
    ("given", "wish", "problem"),
    [
        (argument(dtype="int32", index_extent=50), spec("integers", 0.0, 51.0), "the tensor that it addresses"),
        (argument(dtype="int32", index_extent=50), spec("integers", -1.0, 5.0), "the tensor that it addresses"),
        (argument(dtype="int8"), spec("integers", 0.0, 129.0), "int8"),
        (argument(dtype="int32"), spec("uniform", 0.0, 1.0), "fractions"),
        (argument(dtype="bool"), spec("integers", 0.0, 3.0), "bool"),
        (argument(dtype="float16"), spec("uniform", 0.0, 1e6), "float16"),
        (argument(is_output=True, holds_input=False), spec("normal"), "output"),
        (argument(), example_of(np.zeros((40, 4), np.float32))[0], "missing"),
    ],
)
def test_input_spec_that_does_not_fit_is_refused(given: Argument, wish: InputSpec, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as refused:
        require_fitting([given], [wish], [])
    assert refused.value.field == "input"


@pytest.mark.parametrize(
    ("given", "array", "problem"),
    [
        (argument(), np.zeros((40, 4), np.float32), "bytes"),
        (argument(), np.full((40, 3), np.nan, np.float32), "not finite"),
        (argument(dtype="int32", index_extent=50), np.full((40, 3), 50, np.int32), "the tensor that it addresses"),
    ],
)
def test_example_that_does_not_fit_is_refused(given: Argument, array: InputArray, problem: str) -> None:
    named, example = example_of(array)
    with pytest.raises(BadInput, match=problem):
        require_fitting([given], [named], [example])


def test_unknown_input_name_is_refused_with_known_names() -> None:
    with pytest.raises(BadInput, match=r"Its arguments are A, B\."):
        require_names([[argument("A")], [argument("B")]], [spec("normal", name="C")])
    with pytest.raises(BadInput, match="twice"):
        require_fitting([argument()], [spec("normal"), spec("positive")], [])


def logarithm() -> tvm.IRModule:
    """Finite only above five, where neither usual nor positive inputs lie."""
    source = te.placeholder((64,), name="A")
    return tvm.IRModule({"main": te.create_prim_func([source, te.compute((64,), lambda i: te.log(source[i] - 5.0))])})


def opened(running: RunningFarm, module: tvm.IRModule, name: str, *specs: InputSpec) -> str:
    running.farm.open_task(workloads.task(module, name).model_copy(update={"input_specs": specs}))
    return name


def test_specified_inputs_are_used_at_every_step(running: RunningFarm, fork_server: ForkServer, tmp_path: Path) -> None:
    module = logarithm()
    exploration = opened(running, module, "logarithm", BEYOND_FIVE)
    untouched = Trace(text="[[],[]]")
    measured = running.measure(exploration, untouched, Purpose.VERIFY)
    assert isinstance(measured.result, Timing), measured.result
    assert measured.inputs_checked == INPUT_SETS
    order = ComparisonOrder(exploration_id=exploration, traces=(None,), seconds_each=0.02)
    assert isinstance(running.farm.compare(order).results[0], Timing)
    exported = running.farm.export(workloads.export_order(exploration, None))
    assert isinstance(exported, Exported), exported
    assert check_exported(fork_server, tmp_path, exported, module, input_specs=(BEYOND_FIVE,)).worst_error <= 1.0
    with pytest.raises(BadInput, match="not finite"):
        check_exported(fork_server, tmp_path, exported, module)


def test_inputs_that_index_outside_a_table_are_refused(running: RunningFarm) -> None:
    with pytest.raises(BadInput, match="the tensor that it addresses"):
        opened(running, workloads.gather(), "astray", spec("integers", 0.0, 1000.0, name="I"))


def test_untuned_latency_is_estimated_while_measuring(running: RunningFarm) -> None:
    module = workloads.matmul(256)  # large enough to be run as a reference in another order of loops
    ratios = []
    for _ in range(ROUNDS):
        exploration = running.open(module)
        rough_s = next(filter(None, (rough_seconds(running, exploration, module) for _ in range(30))), None)
        order = ComparisonOrder(exploration_id=exploration, traces=(None,), seconds_each=0.1)
        (untuned,) = running.farm.compare(order).results
        running.farm.close_task(exploration)
        assert isinstance(untuned, Timing)
        assert rough_s is not None
        stretched = elapsed_per_cpu_time()
        ratios.append(rough_s / min(untuned.samples_s))
        if 1 / 3 / stretched < ratios[-1] < 3 * stretched:
            return
    raise AssertionError(f"the estimate is {ratios} times the latency")


def elapsed_per_cpu_time() -> float:
    """How many times its processor time a long call takes now, while other processes use the processor."""
    began_s, used_s = time.monotonic(), time.thread_time()
    while (taken_s := time.thread_time() - used_s) < 0.2:
        pass
    return (time.monotonic() - began_s) / taken_s


def rough_seconds(running: RunningFarm, exploration: str, module: tvm.IRModule) -> float | None:
    return running.measure(exploration, workloads.tiled(module)).untuned_about_s
