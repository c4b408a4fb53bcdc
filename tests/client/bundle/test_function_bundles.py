"""Bundles of functions: each record is an entry of its own, with the schedule that was measured."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx

from tests.client.bundle.bundle_library import Bundle, address, aligned, loaded, pointers
from tests.search.relax.integer.quantized_networks import QuantizedLayer
from tests.search.space.test_dot_product_tiling import VNNI
from tests.servers.command_server import Ended
from tests.servers.tuned_home import TunedHome
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.bundle.bundle_source import FunctionsSource, ModelSource, RecordFunction, unique_names
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model import builders, child_call
from tunefarm.model.builders import FunctionBuilders
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import FunctionOrder
from tunefarm_edge.runtime.model import LoadedRelease
from tunefarm_edge.update.trial import self_test
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import WASM_TARGET, BundleForm, BundleManifest
from tunefarm_schemas.tuning.trace import Space
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.tvm.workload import ENTRY, workload_of

Tunefarm = Callable[..., Ended]
STRICT = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,--gc-sections", "-I.", "-Iruntime")


def elementwise(name: str, compute: Callable[[Any], Any], size: int) -> Workload:
    given = te.placeholder((size, 8), "float32", "A")
    result = te.compute((size, 8), lambda i, j: compute(given[i, j]), name)
    return workload_of(te.create_prim_func([given, result]), name=name)


def scheduled(workload: Workload, record_id: str) -> RecordFunction:
    """The workload with a schedule that splits its first loop."""
    schedule = tvm.s_tir.Schedule(load_json(workload.module_json))
    [block] = schedule.get_child_blocks(schedule.get_sblock("root", func_name=ENTRY))
    outer, _ = schedule.split(schedule.get_loops(block)[0], [None, 4])
    schedule.parallel(outer)
    return RecordFunction(workload, ChosenRecord(record_id, trace_of(schedule).text))


def product_of_half(name: str, *axes: str) -> RecordFunction:
    """A matmul of floats of 16 bits that adds every sixteenth product first; ``axes`` of a GPU run rows and columns."""
    a, b = te.placeholder((16, 256), "float16", "A"), te.placeholder((256, 8), "float16", "B")
    k = te.reduce_axis((0, 256), "k")
    product = te.compute((16, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "C")
    workload = workload_of(te.create_prim_func([a, b, product]), name=name)
    schedule = tvm.s_tir.Schedule(load_json(workload.module_json))
    [block] = schedule.get_child_blocks(schedule.get_sblock("root", func_name=ENTRY))
    *outer, sums = schedule.get_loops(block)
    schedule.reorder(*reversed(schedule.split(sums, [None, 16])))
    for loop, axis in zip(outer, axes, strict=False):
        schedule.bind(loop, axis)
    return RecordFunction(workload, ChosenRecord("4" * 32, trace_of(schedule).text))


def scale_expected(folder: Path, factor: float, dtype: str = "float16") -> None:
    """Multiplies the first output that the first test vector of a bundle expects."""
    path = folder / "vectors/0/output0.bin"
    path.write_bytes((np.frombuffer(path.read_bytes(), dtype) * factor).astype(dtype).tobytes())


TWICE = elementwise("twice", lambda value: value * 2.0, 16)
NEGATED = elementwise("negated", lambda value: -value, 32)
FUNCTIONS = (scheduled(TWICE, "1" * 32), scheduled(NEGATED, "2" * 32))


def built(
    fork_server: ForkServer, folder: Path, form: BundleForm, functions: tuple[RecordFunction, ...]
) -> BundleManifest:
    BundleBuilder(fork_server).build_source(FunctionsSource(functions, "host:1"), "Both", form, folder)
    return read_bundle(str(folder))[0]


@pytest.fixture(scope="module")
def library(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions") / "library"
    built(fork_server, folder, "library", FUNCTIONS)
    return folder


def test_c_refuses_floats_that_it_has_no_type_for(fork_server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="halved computes with float16") as refused:
        built(fork_server, tmp_path / "c", "c", (product_of_half("halved"),))
    assert refused.value.field == "form"
    assert not (tmp_path / "c").exists()


def models_of(bundle: Bundle) -> list[int]:
    """The table of entries, which stands after the fields of the first format."""
    after = ctypes.addressof(bundle) + ctypes.sizeof(Bundle)
    count = ctypes.c_int32.from_address(after).value
    table = ctypes.c_void_p.from_address(after + 8).value
    assert table is not None
    return [int(each) for each in (ctypes.c_void_p * count).from_address(table) if each is not None]


def test_library_has_a_table_of_functions(library: Path) -> None:
    bundle = loaded(library / "model.so")
    first, second = models_of(bundle)
    assert first == bundle.model
    given = np.random.default_rng(0).standard_normal((32, 8)).astype("float32")
    for model, rows, factor in ((first, 16, 2.0), (second, 32, -1.0)):
        inputs, outputs = [aligned(given[:rows].tobytes())], [aligned(bytes(rows * 8 * 4))]
        arena = aligned(b"")
        assert bundle.run(model, None, address(arena), pointers(inputs), pointers(outputs)) == 0
        np.testing.assert_array_equal(outputs[0].view("float32").reshape(rows, 8), given[:rows] * np.float32(factor))
    bundle.release_workspaces()


def test_agent_runs_each_function(library: Path) -> None:
    given = np.random.default_rng(0).standard_normal((32, 8)).astype("float32")
    for name, rows, factor in (("twice", 16, 2.0), ("negated", 32, -1.0)):
        release = LoadedRelease(library, name)
        outputs = release.new_outputs()
        release.run([given[:rows].tobytes()], outputs)
        found = np.frombuffer(outputs[0], "float32").reshape(rows, 8)
        np.testing.assert_array_equal(found, given[:rows] * np.float32(factor))
    assert self_test(library).failure is None


def test_manifest_describes_each_function(library: Path) -> None:
    manifest = read_bundle(str(library))[0]
    assert [(each.name, each.kind, each.record_id) for each in manifest.functions] == [
        ("twice", "record", "1" * 32),
        ("negated", "record", "2" * 32),
    ]
    [other] = manifest.others
    assert (manifest.name, other.constant) == ("model_both", "model_both_negated")
    shapes = [[(each.name, each.shape, each.dtype) for each in (*one.inputs, *one.outputs)] for one in (other.entry,)]
    assert shapes == [[("A", (32, 8), "float32"), ("negated", (32, 8), "float32")]]
    assert (manifest.layout, manifest.alignment_bytes, manifest.weights_bytes) == ("row_major", 64, 0)
    assert [each.vectors[0].inputs for each in (manifest, other)] == [
        ("vectors/0/input0.bin",),
        ("vectors/negated/0/input0.bin",),
    ]


@pytest.mark.parametrize("form", ["c", "objects"])
@pytest.mark.quick_cases(1)
def test_self_test_runs_the_vectors_of_all_functions(fork_server: ForkServer, form: BundleForm, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    built(fork_server, folder, form, FUNCTIONS)
    kernels = sorted(str(each.relative_to(folder)) for each in folder.glob("kernels/*"))
    runtime = sorted(str(each.relative_to(folder)) for each in folder.glob("runtime/*.c"))
    command = ["cc", *STRICT, "model.c", *kernels, *runtime, "-lm", "-pthread", "-o", str(tmp_path / "self_test")]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    run = [str(tmp_path / "self_test"), str(folder), "2", "2"]
    assert "2 vectors, worst error" in subprocess.run(run, capture_output=True, text=True, check=True).stdout
    wrong = folder / "vectors/negated/0/output0.bin"
    wrong.write_bytes(wrong.read_bytes()[::-1])
    assert subprocess.run(run, capture_output=True, check=False).returncode == 1


def test_floats_of_16_bits_are_compared_by_their_values(fork_server: ForkServer, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    built(fork_server, folder, "objects", (product_of_half("half"),))
    run = [str(tmp_path / "self_test"), str(folder), "1", "1"]
    sources = [str(each) for pattern in ("kernels/*.o", "runtime/*.c") for each in sorted(folder.glob(pattern))]
    command = ["cc", *STRICT, "model.c", *sources, "-lm", "-pthread", "-o", run[0]]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    passed = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "1 vectors, worst error 0 " not in passed.stdout, "the sums have the same order"
    scale_expected(folder, 1.1)
    assert subprocess.run(run, capture_output=True, check=False).returncode == 1


def test_agent_compares_floats_of_16_bits_by_their_values(fork_server: ForkServer, tmp_path: Path) -> None:
    built(fork_server, tmp_path / "bundle", "library", (product_of_half("half"),))
    passed = self_test(tmp_path / "bundle")
    assert passed.failure is None
    assert 0 < passed.worst_error <= 1
    scale_expected(tmp_path / "bundle", 1.1)
    assert self_test(tmp_path / "bundle").failure == "self_test_failed"


def test_functions_of_other_code_are_refused(fork_server: ForkServer, tmp_path: Path) -> None:
    calling = elementwise("calling", lambda value: tirx.call_extern("float32", "system", value), 16)
    with pytest.raises(BadInput, match="calling cannot be a part of a bundle: it calls"):
        built(
            fork_server, tmp_path / "bundle", "objects", (RecordFunction(calling, ChosenRecord("3" * 32, "[[],[]]")),)
        )
    assert list(tmp_path.iterdir()) == []


def test_foreign_model_with_other_code_is_refused(fork_server: ForkServer, tmp_path: Path) -> None:
    given = te.placeholder((8,), "float32", "A")
    called = te.compute((8,), lambda i: tirx.call_extern("float32", "system", given[i]), "B")
    builder = relax.BlockBuilder()
    function = builder.add_func(te.create_prim_func([given, called]), "calling")
    x = relax.Var("x", relax.TensorType((8,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit(relax.call_tir(function, [x], relax.TensorType((8,), "float32")))
            builder.emit_output(result)
        builder.emit_func_output(result)
    model = ImportedModel(str(tvm.ir.save_json(builder.get())), {}, "tvm", ())
    source = ModelSource(model, "host:1", lambda _tasks, _target, _generator: {}, is_foreign=True)
    with pytest.raises(BadInput, match="its function calling is refused: it calls"):
        BundleBuilder(fork_server).build_source(source, "net", "objects", tmp_path / "bundle")


def test_schedule_with_an_instruction_of_another_processor_is_refused_or_replaced(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    [task] = model_tasks(prepare(QuantizedLayer(0, (16, 16), size=4).module(), {}, VNNI))
    space = search_space(load_json(task.workload.module_json), VNNI, "stable", Space())
    point = Scheduler(space).apply(Point(0, tuple(space.sketches[0].all_points()[0].tolist())))
    assert isinstance(point, Scheduled)
    functions = (RecordFunction(task.workload, ChosenRecord("5" * 32, point.trace.text)), FUNCTIONS[0])
    source = FunctionsSource(functions, WASM_TARGET, needs_schedules=True)
    with pytest.raises(BadInput, match=r"does not apply: .*LLVM ERROR") as refused:
        BundleBuilder(fork_server).build_source(source, "q", "objects", tmp_path / "bundle")
    assert "name a target" in refused.value.fix
    named = FunctionsSource(functions, WASM_TARGET)
    bundle = BundleBuilder(fork_server).build_source(named, "q", "objects", tmp_path / "bundle")
    assert [each.kind for each in bundle.manifest.functions] == ["untried", "record"]
    assert "LLVM ERROR" in bundle.problems[bundle.manifest.functions[0].name]


def test_schedule_stays_if_others_used_up_the_seconds_of_its_child(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[Child] = []

    @contextmanager
    def compiling(*arguments: Any, **options: Any) -> Iterator[Child]:
        with child_call.compiling(*arguments, **options) as child:
            children.append(child)
            yield child

    def use_up_the_seconds(_: str) -> None:
        os.kill(children[-1].pid, signal.SIGXCPU)

    monkeypatch.setattr(builders, "compiling", compiling)
    monkeypatch.setattr(builders, "usable_physical_cores", lambda: 1)
    orders = [
        FunctionOrder(
            module_json=each.workload.module_json,
            names=(each.workload.name,),
            target=host_target(1),
            trace=each.record.trace,
            folder="",
        )
        for each in (*FUNCTIONS, FUNCTIONS[0])
    ]
    results = FunctionBuilders(fork_server, tmp_path, use_up_the_seconds).run(orders)
    assert [(each.kind, each.problem) for each, _ in results] == [("record", "")] * 3
    assert all(path.stat().st_size for _, path in results)
    assert len(children) == 3


def test_two_records_of_one_function_are_refused(fork_server: ForkServer, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="are of the same function"):
        built(fork_server, tmp_path / "bundle", "objects", (FUNCTIONS[0], scheduled(TWICE, "4" * 32)))


def test_unique_names_are_identifiers() -> None:
    assert unique_names(["T.dense", "t dense", "main", "\u2603", "main"]) == [
        "t_dense",
        "t_dense_2",
        "main_2",
        "unnamed",
        "main_3",
    ]


def test_artifact_build_makes_a_bundle_of_a_job(
    tuned: TunedHome, environment: dict[str, str], tunefarm: Tunefarm
) -> None:
    environment["TUNEFARM_HOME"] = str(tuned.home)
    record_id = tuned.summary["tasks"][0]["record_id"]
    of_job = ("artifact", "build", tuned.summary["job_id"][:-2], "--form", "c", "--no-timing")
    manifest = tunefarm(*of_job, "--output", "job", "--json").json()
    assert [each["record_id"] for each in manifest["functions"]] == [record_id]
    assert [each["record_id"] for each in manifest["records"]] == [record_id]
    of_record = ("bundle", "build", record_id[:12], "--form", "c", "--no-timing", "--output", "record", "--json")
    assert tunefarm(*of_record).json()["files"] == manifest["files"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("zz",), "there is no model, record or job"),
        (("net.onnx", "1a"), "is a file, and 2 sources are given"),
        (("1a", "--fresh"), "are for models"),
        (("1a", "--form", "elf"), "is not a form of kernels"),
    ],
)
def test_bundle_build_refuses_sources(tunefarm: Tunefarm, words: tuple[str, ...], problem: str) -> None:
    ended = tunefarm("bundle", "build", *words, "--output", "out")
    assert (ended.code, problem in ended.err) == (2, True), ended.err
