"""Kernels for other machines compute what the function computes: searched here, cross-compiled, run in an emulator."""

import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.targets.toolchain import ZIG, Array, Machine
from tunefarm_schemas.kernel_library.check import refusal_of
from tunefarm_schemas.kernel_library.of_target import rules_of
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.target_preset import NAMED_TARGETS, preset_attributes
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.attention.few_rows import sums_in_lanes
from tunefarm_search.relax.attention.visible_keys import attention_of_visible_keys
from tunefarm_search.relax.products.narrow_weights import narrow_weights, product_of_codes
from tunefarm_search.relax.quantized_values import QuantizedConstant
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace, search_space
from tunefarm_search.tvm.target import canonical_target, tvm_target
from tunefarm_workers.builder.c_source import c_source
from tunefarm_workers.builder.linker import link_kernel
from tunefarm_workers.builder.scheduled_module import build_scheduled

pytestmark = pytest.mark.targets

AARCH64: Final = Machine((*ZIG, "cc", "-target", "aarch64-linux-musl"), ("qemu-aarch64-static", "-cpu", "max"))
RISCV64: Final = Machine(
    (*ZIG, "cc", "-target", "riscv64-linux-musl"), ("qemu-riscv64-static", "-cpu", "rv64,v=true,vext_spec=v1.0")
)
WASM: Final = Machine((*ZIG, "cc", "-target", "wasm32-wasi", "-msimd128"), is_wasm=True)
HERE: Final = Machine(("cc",))
MACHINES: Final = {
    "raspberry-pi-3": AARCH64,
    "raspberry-pi-4": AARCH64,
    "raspberry-pi-5": AARCH64,
    "graviton2": AARCH64,
    "graviton3": AARCH64,
    "graviton4": AARCH64,
    "riscv64-v": RISCV64,
    "wasm32-simd128": WASM,
}
CANDIDATES: Final = 2
"""Of each sketch."""


def matmul_bias_relu() -> Any:
    left, right = te.placeholder((30, 48), name="A"), te.placeholder((48, 36), name="B")
    bias = te.placeholder((36,), name="bias")
    return te.create_prim_func([left, right, bias, topi.nn.relu(topi.add(topi.matmul(left, right), bias))])


def convolution() -> Any:
    image, weight = te.placeholder((1, 12, 14, 8), name="image"), te.placeholder((3, 3, 8, 16), name="weight")
    return te.create_prim_func([image, weight, topi.nn.conv2d_nhwc(image, weight, 1, 1, 1)])


def softmax() -> Any:
    rows = te.placeholder((12, 33), name="rows")
    return te.create_prim_func([rows, topi.nn.softmax(rows)])


def int8_matmul() -> Any:
    left, right = te.placeholder((16, 32), "int8", "A"), te.placeholder((32, 24), "int8", "B")
    step = te.reduce_axis((0, 32), "k")
    product = te.compute(
        (16, 24),
        lambda i, j: te.sum(left[i, step].astype("int32") * right[step, j].astype("int32"), axis=step),
        name="C",
    )
    return te.create_prim_func([left, right, product])


def four_bit_weights() -> Any:
    integers, scales = np.random.default_rng(1).integers(-8, 8, (64, 32)), np.ones((64, 32))
    scales[32:] = 2
    weights = narrow_weights(QuantizedConstant(integers, scales), 3)
    assert weights is not None
    left = te.placeholder((3, 64), name="A")
    constants = [te.placeholder(each.shape, str(each.dtype), f"W{at}") for at, each in enumerate(weights.constants)]
    return te.create_prim_func([left, *constants, product_of_codes(3, weights, left, *constants)])


def few_rows() -> Any:
    rows, keys = te.placeholder((4, 2, 64), name="rows"), te.placeholder((4, 48, 64), name="keys")
    return te.create_prim_func([rows, keys, sums_in_lanes(rows, keys)])


def visible_keys() -> Any:
    shapes = {"queries": (4, 2, 32), "keys": (4, 64, 32), "values": (4, 64, 16), "mask": (1, 1, 64)}
    given = [te.placeholder(shape, name=name) for name, shape in shapes.items()]
    end = te.compute((1,), lambda _: tvm.tirx.const(41, "int32"), name="end")
    attended = attention_of_visible_keys(*given, end, copies=1, heads_of_group=4, is_guarded=False)
    return te.create_prim_func([*given, attended])


FUNCTIONS: Final = {
    each.__name__: each
    for each in (matmul_bias_relu, convolution, softmax, int8_matmul, four_bit_weights, few_rows, visible_keys)
}


PROGRAMS: Final = {visible_keys.__name__}
"""Functions whose loops are as they run: no schedule changes them."""


def target_of(preset: str) -> Target:
    attributes = preset_attributes(preset)
    assert attributes is not None
    return canonical_target(attributes, 2).target


def candidates(module: Any, target: Target) -> Iterator[Any]:
    """The scheduled modules of a few points of each sketch, and of the function itself."""
    yield module
    space = search_space(module, target, "stable", Space())
    scheduler = Scheduler(space)
    for point in points(space):
        found = scheduler.apply(point)
        if isinstance(found, Scheduled):
            yield scheduler.module_of(found.trace)


def points(space: SearchSpace) -> Iterator[Point]:
    random = np.random.default_rng(7)
    for sketch in space.sketches:
        for row in sketch.sample(random, CANDIDATES):
            yield Point(sketch.number, tuple(row.tolist()))


def linker(path: Path, triple: str) -> Path:
    """Zig's compiler without an option that it does not know, although its linker does that by default."""
    path.write_text(f'#!/bin/bash\nexec {shlex.join(ZIG)} cc -target {triple} "${{@//,-z,text/}}"\n')
    path.chmod(0o755)
    empty = path.with_suffix(".c")
    empty.write_text("")
    # The first library for a machine takes minutes, because Zig builds the C library's stubs.
    subprocess.run([path, "-shared", "-o", path.with_suffix(".so"), empty, "-lm"], check=True, timeout=900)
    return path


def arguments_of(module: Any) -> list[Array]:
    random = np.random.default_rng(3)
    shapes = [([int(extent) for extent in each.shape], str(each.dtype)) for each in module["main"].params]
    return [
        random.integers(0 if dtype == "uint8" else -100, 100, shape).astype(dtype)
        if "int" in dtype
        else random.uniform(-1, 1, shape).astype(dtype)
        for shape, dtype in shapes
    ]


def computed_here(module: Any, arguments: list[Array]) -> Array:
    tensors = [tvm.runtime.tensor(each) for each in arguments]
    tvm.compile(module, target={"kind": "llvm", "num-cores": 1})["main"](*tensors)
    return np.asarray(tensors[-1].numpy())


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("preset", MACHINES)
def test_kernels_for_another_machine_compute_the_function(preset: str, function: str, tmp_path: Path) -> None:
    module, target = tvm.IRModule({"main": FUNCTIONS[function]()}), target_of(preset)
    arguments = arguments_of(module)
    expected = computed_here(module, arguments)
    scheduled = list(candidates(module, target))
    assert (len(scheduled) > 1) == (function not in PROGRAMS)
    for number, each in enumerate(scheduled):
        kernel, program = tmp_path / f"{number}.o", tmp_path / f"program{number}"
        build_scheduled(each, tvm_target(target)).write_to_file(str(kernel), "o")
        MACHINES[preset].link([kernel], program)
        found = MACHINES[preset].call(program, arguments)[-1]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("preset", [each.name for each in NAMED_TARGETS if each.attributes["kind"] == "llvm"])
def test_every_preset_of_a_processor_generates_code(preset: str, tmp_path: Path) -> None:
    target = target_of(preset)
    *_, scheduled = candidates(tvm.IRModule({"main": matmul_bias_relu()}), target)
    build_scheduled(scheduled, tvm_target(target)).write_to_file(str(tmp_path / "kernel.o"), "o")
    assert b"__tvm_ffi_main" in (tmp_path / "kernel.o").read_bytes()


@pytest.mark.parametrize("preset", ["raspberry-pi-4", "graviton3", "riscv64-v"])
def test_library_for_another_machine_satisfies_its_rules(preset: str, tmp_path: Path) -> None:
    target = target_of(preset)
    *_, scheduled = candidates(tvm.IRModule({"main": matmul_bias_relu()}), target)
    build_scheduled(scheduled, tvm_target(target)).write_to_file(str(tmp_path / "kernel.o"), "o")
    triple = str(json.loads(target.canonical)["mtriple"])
    library = tmp_path / "kernel.so"
    link_kernel([str(linker(tmp_path / "linker", triple))], library, [str(tmp_path / "kernel.o")], ["-lm"], tmp_path)
    assert refusal_of(library.read_bytes(), rules_of(target.canonical)) is None
    assert refusal_of(library.read_bytes(), rules_of(target_of("x86-64-v3").canonical)) is not None


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_c_source_computes_the_function(function: str, threads: int, tmp_path: Path) -> None:
    module, target = tvm.IRModule({"main": FUNCTIONS[function]()}), target_of("x86-64-v3")
    arguments = arguments_of(module)
    expected = computed_here(module, arguments)
    for number, each in enumerate(candidates(module, target)):
        source, program = tmp_path / f"{number}.c", tmp_path / f"program{number}"
        source.write_text(c_source(each))
        HERE.link([source], program)
        found = HERE.call(program, arguments, threads)[-1]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_runtime_runs_parallel_loops_on_threads(threads: int, tmp_path: Path) -> None:
    module, target = tvm.IRModule({"main": matmul_bias_relu()}), target_of("raspberry-pi-4")
    arguments = arguments_of(module)
    expected = computed_here(module, arguments)
    scheduled = next(each for each in candidates(module, target) if "T.parallel" in each.script())
    build_scheduled(scheduled, tvm_target(target)).write_to_file(str(tmp_path / "kernel.o"), "o")
    AARCH64.link([tmp_path / "kernel.o"], tmp_path / "program")
    for _ in range(5):
        found = AARCH64.call(tmp_path / "program", arguments, threads)[-1]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_runtime_reports_a_wrong_argument(tmp_path: Path) -> None:
    module = tvm.IRModule({"main": softmax()})
    (tmp_path / "kernel.c").write_text(c_source(module))
    HERE.link([tmp_path / "kernel.c"], tmp_path / "program")
    with pytest.raises(AssertionError, match=r"Invalid rows\.shape\[0\] on argument #0"):
        HERE.call(tmp_path / "program", [each[:4] for each in arguments_of(module)])
