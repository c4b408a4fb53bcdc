"""A model as C sources runs without TVM, and computes what the model computes."""

import ctypes
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
import tvm

from tests.search.relax.models import (
    SmallModel,
    convolutional_network,
    multilayer_perceptron,
    reshaped,
    tuples,
    two_entries,
)
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.static_plan.plan import StaticPlan, static_plan
from tunefarm_search.relax.tasks import tir_functions
from tunefarm_search.tvm.target import canonical_target, tvm_target
from tunefarm_workers.builder.c_source import c_source
from tunefarm_workers.builder.model_source import model_header, model_source
from tunefarm_workers.builder.scheduled_module import build_scheduled

Array = npt.NDArray[np.generic]
RUNTIME: Final = Path(__file__).parents[3] / "deploy/edge/runtime"
STRICT: Final = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1")
TARGET: Final = canonical_target({"kind": "llvm"}, 1).target


def as_c(module: Any, folder: Path) -> Path:
    (folder / "kernels.c").write_text(c_source(module))
    return folder / "kernels.c"


def as_object(module: Any, folder: Path) -> Path:
    build_scheduled(module, tvm_target(TARGET)).write_to_file(str(folder / "kernels.o"), "o")
    return folder / "kernels.o"


@pytest.fixture(params=[as_c, as_object])
def kernels(request: pytest.FixtureRequest) -> Callable[[Any, Path], Path]:
    return request.param


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The objects of the runtime, which every program contains."""
    folder = tmp_path_factory.mktemp("runtime")
    return [object_of(RUNTIME / name, folder, STRICT) for name in ("tunefarm_model.c", "tunefarm_runtime.c")]


def object_of(source: Path, folder: Path, options: Sequence[str]) -> Path:
    made = folder / f"{source.stem}.of_c.o"
    run("cc", "-c", "-fPIC", *options, "-I", RUNTIME, "-I", folder, source, "-o", made)
    return made


def built(plan: StaticPlan, kernels: Path, runtime: Sequence[Path], folder: Path) -> ctypes.CDLL:
    """A library of the plan, its kernels and the runtime. The generated source compiles without a warning."""
    (folder / "net.c").write_text(model_source({"net": plan}))
    (folder / "net.h").write_text(model_header(plan, "net"))
    (folder / "user.c").write_text('#include "net.h"\nconst TunefarmModel *model(void) { return &net; }\n')
    own = [object_of(folder / name, folder, STRICT) for name in ("net.c", "user.c")]
    given = object_of(kernels, folder, ("-std=c11", "-O1")) if kernels.suffix == ".c" else kernels
    # This process has TVM's functions of the same names.
    run("cc", "-shared", "-pthread", "-Wl,-Bsymbolic", *own, *runtime, given, "-lm", "-o", folder / "net.so")
    return ctypes.CDLL(str(folder / "net.so"))


def run(*command: Any) -> None:
    subprocess.run([str(part) for part in command], check=True, timeout=600)


def memory(size_bytes: int, misaligned_bytes: int = 0) -> npt.NDArray[np.uint8]:
    """Bytes that begin at a multiple of 64, or so many bytes after one."""
    whole = np.full(size_bytes + 192, 0xA5, dtype="uint8")
    begin = -whole.ctypes.data % 64 + misaligned_bytes
    return whole[begin : begin + size_bytes]


def placed_in(array: Array) -> npt.NDArray[np.uint8]:
    there = memory(max(array.nbytes, 1))
    there[: array.nbytes] = np.frombuffer(array.tobytes(), dtype="uint8")
    return there


def pointers(arrays: Sequence[npt.NDArray[np.uint8]]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(each.ctypes.data for each in arrays))


def called(library: ctypes.CDLL, plan: StaticPlan, inputs: Sequence[Array], misaligned_bytes: int = 0) -> list[Array]:
    weights = memory(plan.weights_bytes)
    for offset, array in plan.weights:
        weights[offset : offset + array.nbytes] = np.frombuffer(array.tobytes(), dtype="uint8")
    given = [placed_in(each) for each in inputs]
    sizes = [int(np.prod(each.shape)) * np.dtype(each.dtype).itemsize for each in plan.entry.outputs]
    results = [memory(size, misaligned_bytes) for size in sizes]
    arena = memory(plan.arena_bytes)
    library.model.restype = ctypes.c_void_p
    library.tunefarm_last_error.restype = ctypes.c_char_p
    run_model = library.tunefarm_model_run
    places = ctypes.c_void_p(weights.ctypes.data), ctypes.c_void_p(arena.ctypes.data)
    if run_model(ctypes.c_void_p(library.model()), *places, pointers(given), pointers(results)) != 0:
        raise RuntimeError(library.tunefarm_last_error().decode())
    return [
        np.frombuffer(each.tobytes(), dtype=output.dtype).reshape(output.shape)
        for each, output in zip(results, plan.entry.outputs, strict=True)
    ]


def functions_of(plan: StaticPlan, module: Any) -> Any:
    functions = tir_functions(module)
    return tvm.IRModule({each: functions[each].with_attr("global_symbol", each) for each in plan.functions})


def compiled(
    model: SmallModel, entry: str, kernels: Any, runtime: Sequence[Path], folder: Path
) -> tuple[ctypes.CDLL, StaticPlan]:
    prepared = prepare(model.module, model.weights, TARGET)
    plan = static_plan(prepared, entry)
    return built(plan, kernels(functions_of(plan, prepared.module), folder), runtime, folder), plan


@pytest.mark.parametrize("model", [multilayer_perceptron, convolutional_network, reshaped])
@pytest.mark.quick_cases(3)
def test_program_computes_the_model(
    model: Callable[[], SmallModel], kernels: Any, runtime: list[Path], tmp_path: Path
) -> None:
    small = model()
    library, plan = compiled(small, "main", kernels, runtime, tmp_path)
    for _ in range(2):
        (found,) = called(library, plan, small.inputs)
        np.testing.assert_allclose(found, small.expected(*small.inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.quick_cases(1)
def test_program_gives_all_results(kernels: Any, runtime: list[Path], tmp_path: Path) -> None:
    small = tuples()
    library, plan = compiled(small, "main", kernels, runtime, tmp_path)
    total, (exponential, same) = small.expected(*small.inputs)
    for found, expected in zip(called(library, plan, small.inputs), (total, exponential, same), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.quick_cases(1)
def test_program_of_another_entry(kernels: Any, runtime: list[Path], tmp_path: Path) -> None:
    small = two_entries()
    library, plan = compiled(small, "decode", kernels, runtime, tmp_path)
    (found,) = called(library, plan, small.inputs)
    np.testing.assert_allclose(found, small.expected("decode", *small.inputs), rtol=1e-4)


def test_misaligned_tensor_is_an_error(runtime: list[Path], tmp_path: Path) -> None:
    small = multilayer_perceptron()
    library, plan = compiled(small, "main", as_object, runtime, tmp_path)
    with pytest.raises(RuntimeError, match="multiple of 64"):
        called(library, plan, small.inputs, misaligned_bytes=4)


def test_arguments_have_the_shapes_of_the_entry_if_only_views_are_used() -> None:
    model = reshaped()
    plan = static_plan(prepare(model.module, model.weights, TARGET), "main")
    source = model_source({"net": plan})
    for table, shape in (("inputs", "2, 3, 4"), ("outputs", "1, 10")):
        number = re.search(rf'Argument {table}\[\] = {{\n  {{"[^"]*", (\d+)}}', source)
        assert number is not None
        assert f"shape{number[1]}[] = {{{shape}}};" in source
