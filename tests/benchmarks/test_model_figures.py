import numpy as np
import pytest

from benchmarks.machine import this_machine
from benchmarks.models.agreement import worst_error
from benchmarks.models.compiling import CompiledInfo
from benchmarks.models.model_result import ModelResult
from benchmarks.models.report import markdown_page
from benchmarks.models.rival_process import RivalReady, RivalSample
from benchmarks.models.rival_turns import RivalResult

TOLERANCE = 1e-4


def rival(name: str, *seconds: float, error: float = 1e-6, once: bool = False) -> RivalResult:
    ready = RivalReady(setup_s=1.0, first_call_s=seconds[0], error=error, compared=3, once=once)
    return RivalResult(rival=name, ready=ready, samples=tuple(RivalSample(call_s=each, calls=10) for each in seconds))


def result_of(*rivals: RivalResult) -> ModelResult:
    compiled = CompiledInfo(wall_s=9.5, stages={"read": 1.5}, functions=20, kinds={"untried": 20})
    return ModelResult(
        model="resnet18", threads=2, tolerance=TOLERANCE, rivals=rivals, compiled={"zero-trials": compiled}
    )


def test_worst_error_is_relative_to_the_largest_value_of_an_output() -> None:
    expected = [np.array([10.0, -20.0]), np.array([1e-3])]
    assert worst_error([np.array([10.0, -20.2]), np.array([1e-3])], expected) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "found", [[np.ones(3)], [np.array([1.0, np.nan])], [np.ones(2), np.ones(2)], [np.ones((2, 1))]]
)
def test_worst_error_of_outputs_that_do_not_fit_is_infinite(found: list[np.ndarray]) -> None:
    assert worst_error(found, [np.ones(2)]) == float("inf")


def test_speedup_pairs_the_rounds() -> None:
    ours, theirs = rival("zero-trials", 1.0, 2.0, 4.0), rival("openvino", 2.0, 4.0, 8.0)
    speedup = result_of(ours, theirs).speedup("zero-trials", "openvino")
    assert speedup is not None
    assert (speedup.low, speedup.mean, speedup.high) == pytest.approx((2.0, 2.0, 2.0))


def test_speedup_over_a_single_call_uses_it_in_each_round() -> None:
    result = result_of(rival("zero-trials", 1.0, 2.0), rival("tvm-unscheduled", 40.0, once=True))
    speedup = result.speedup("zero-trials", "tvm-unscheduled")
    assert speedup is not None
    assert (speedup.low, speedup.high) == pytest.approx((20.0, 40.0))


def test_best_other_gives_the_results_of_torch() -> None:
    wrong = rival("openvino", 1.0, error=0.1)
    assert result_of(rival("torch-eager", 3.0), rival("onnxruntime", 2.0), wrong).best_other() == "onnxruntime"


def test_page_marks_single_calls_wrong_results_and_failures() -> None:
    failed = RivalResult(rival="torch-compile", ready=None, samples=(), failure="there is no C++ compiler")
    page = markdown_page(
        [
            result_of(
                rival("tvm-unscheduled", 12.0, once=True),
                rival("zero-trials", 0.5, 0.5),
                rival("torch-eager", 0.6, 0.6),
                rival("openvino", 0.1, 0.1, error=0.1),
                failed,
            )
        ],
        this_machine(),
    )
    assert "12000 *once*" in page
    assert "100.00 (100.00 - 100.00) **error 1e-01**" in page
    assert "| resnet18 | torch-eager | 1.20x (1.20 - 1.20) |" in page
    assert "24.00x" in page
    assert "- resnet18, torch-compile: there is no C++ compiler" in page
