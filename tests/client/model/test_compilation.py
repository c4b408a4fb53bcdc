"""Compiled models compute what NumPy computes, and their folders state how they were made."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, topi

from tests.client.model.conftest import CompiledOnce, compiled
from tests.search.relax.models import flattened, plus
from tunefarm.artifact.aligned_memory import aligned_copy
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.frontend.relax_model import ModelReference
from tunefarm.frontend.weights_file import have_huge_pages
from tunefarm.model.compilation import ModelCompiler
from tunefarm.model.loaded_model import load_model
from tunefarm.model.model_folder import WEIGHTS_NAME
from tunefarm.model.model_run import run_model
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput


def test_load_model_computes_what_numpy_computes(network: CompiledOnce) -> None:
    model, inputs = load_model(network.folder), network.model.inputs
    np.testing.assert_allclose(model(*inputs), network.model.expected(*inputs), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model(x0=inputs[0]), network.model.expected(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "copied"])
def test_load_model_maps_the_weights_that_processes_share(
    network: CompiledOnce, tmp_path: Path, is_shared: bool
) -> None:
    folder = shutil.copytree(network.folder, tmp_path / "model")

    model = load_model(folder, shared_weights=is_shared)

    is_mapped = str(folder / WEIGHTS_NAME) in Path("/proc/self/maps").read_text(encoding="utf-8")
    assert is_mapped == (is_shared or not have_huge_pages())
    inputs = network.model.inputs
    np.testing.assert_allclose(model(*inputs), network.model.expected(*inputs), rtol=1e-4, atol=1e-4)


def test_load_model_keeps_models_apart_whose_functions_have_equal_names(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    models = [load_model(compiled(fork_server, plus(number), tmp_path / str(number)).folder) for number in (1.0, 2.0)]

    assert models[0].manifest.functions[0].name == models[1].manifest.functions[0].name
    assert [float(model(np.zeros(4, np.float32))[0]) for model in models] == [1.0, 2.0]


def test_run_tensors_uses_the_memory_of_a_large_result_again_once_the_caller_drops_it(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    elements = 1 << 14
    model = load_model(compiled(fork_server, plus(1.0, elements), tmp_path / "model").folder)
    given = [tvm.runtime.tensor(np.zeros(elements, "float32"))]

    def address() -> int:
        return int(np.from_dlpack(model.run_tensors("main", given)).ctypes.data)

    assert address() == address()
    held = np.from_dlpack(model.run_tensors("main", given))
    assert address() != held.ctypes.data
    assert (held == 1.0).all()


def test_load_model_accepts_arrays_of_any_alignment_and_layout(network: CompiledOnce) -> None:
    model, given = load_model(network.folder), network.model.inputs[0]
    shifted = np.empty(given.size + 1, "float32")[1:].reshape(given.shape)
    shifted[...] = given
    expected = network.model.expected(given)
    for array in (shifted, np.asfortranarray(given)):
        np.testing.assert_allclose(model(array), expected, rtol=1e-4, atol=1e-4)


def test_results_outlive_inputs_that_were_copied(with_tuples: CompiledOnce) -> None:
    model, kept = load_model(with_tuples.folder), []
    for number in range(3):
        given = []
        for each in with_tuples.model.inputs:
            given.append(np.empty(each.size + 1, each.dtype)[1:].reshape(each.shape))
            given[-1][...] = each + number
        kept.append((model(*given), with_tuples.model.expected(*given)))

    for (total, (exponentials, same)), (its_total, (its_exponentials, its_same)) in kept:
        assert_equal((total, exponentials, same), (its_total, its_exponentials, its_same))


def test_load_model_serves_each_entry_with_its_weights(with_entries: CompiledOnce) -> None:
    model, inputs = load_model(with_entries.folder), with_entries.model.inputs
    assert model.entries == ("decode", "encode")
    for entry in model.entries:
        expected = with_entries.model.expected(entry, *inputs)
        np.testing.assert_allclose(model(*inputs, entry=entry), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(BadInput, match="several functions"):
        model(*inputs)


def test_load_model_returns_nested_tuples(with_tuples: CompiledOnce) -> None:
    model, inputs = load_model(with_tuples.folder), with_tuples.model.inputs
    total, (exponentials, same) = model(*inputs)
    expected_total, (expected_exponentials, expected_same) = with_tuples.model.expected(*inputs)
    np.testing.assert_allclose(total, expected_total, rtol=1e-4)
    np.testing.assert_allclose(exponentials, expected_exponentials, rtol=1e-4)
    np.testing.assert_array_equal(same, expected_same)


def assert_equal(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_call_copies_caches_unless_it_may_update_them(with_caches: CompiledOnce) -> None:
    model, given = load_model(with_caches.folder), [aligned_copy(each) for each in with_caches.model.inputs]
    results = model(*given)

    assert_equal(results, with_caches.model.expected(*with_caches.model.inputs))
    for cache, result, before in zip(given[:2], results[1:], with_caches.model.inputs, strict=False):
        np.testing.assert_array_equal(cache, before)
        assert not np.shares_memory(cache, result)


def test_call_updates_caches_in_place(with_caches: CompiledOnce) -> None:
    model = load_model(with_caches.folder, update_in_place=True)
    (updates,) = model.manifest.updated_inputs
    assert updates.inputs == ("x0", "x1")
    given = [aligned_copy(each) for each in with_caches.model.inputs]
    for number in range(3):
        given[2:4] = [aligned_copy(each + number) for each in given[2:4]]
        expected = with_caches.model.expected(*given)

        results = model(*given)

        assert_equal(results, expected)
        assert results[1] is given[0]
        assert results[2] is given[1]


def test_call_updates_a_copy_of_memory_that_it_cannot_use(with_caches: CompiledOnce) -> None:
    model, given = load_model(with_caches.folder, update_in_place=True), list(with_caches.model.inputs)
    constant = aligned_copy(given[1])
    constant.flags.writeable = False
    unaligned = np.empty(given[0].size + 1, "float32")[1:].reshape(given[0].shape)
    unaligned[...] = given[0]
    expected = with_caches.model.expected(*given)

    results = model(unaligned, constant, *given[2:])

    assert_equal(results, expected)
    np.testing.assert_array_equal(unaligned, given[0])
    np.testing.assert_array_equal(constant, given[1])
    again = model(*results[1:], *given[2:])
    assert [one is other for one, other in zip(again[1:], results[1:], strict=True)] == [True, True]


def test_caches_of_the_same_memory_are_updated_apart(with_caches: CompiledOnce) -> None:
    model, given = load_model(with_caches.folder, update_in_place=True), list(with_caches.model.inputs)
    shared = aligned_copy(np.zeros_like(given[0]))
    expected = with_caches.model.expected(shared.copy(), shared.copy(), *given[2:])

    assert_equal(model(shared, shared, *given[2:]), expected)


def test_call_names_wrong_inputs(network: CompiledOnce) -> None:
    model, given = load_model(network.folder), network.model.inputs[0]
    with pytest.raises(BadInput, match=r"x0 is float64\[1, 3, 8, 8\]"):
        model(given.astype("float64"))
    with pytest.raises(BadInput, match=r"float32\[1, 3, 8, 8\]"):
        model()
    with pytest.raises(BadInput, match="no function 'other'"):
        model(given, entry="other")


def test_manifest_says_what_each_function_is(network: CompiledOnce) -> None:
    manifest = network.compilation.manifest
    assert {function.kind for function in manifest.functions} <= {"untried", "unscheduled"}
    assert sum(function.kind == "untried" for function in manifest.functions) >= 3
    assert manifest.num_cores == 1
    assert manifest.verified is not None
    assert manifest.verified.reference == "unscheduled"
    assert manifest.verified.worst_error <= 1
    stored = json.loads((network.folder / "manifest.json").read_text())
    assert stored["entries"][0]["inputs"][0]["shape"] == [1, 3, 8, 8]


def test_run_model_times_a_model(network: CompiledOnce, fork_server: ForkServer) -> None:
    library = (network.folder / "kernels.so").read_bytes()
    compared = run_model(fork_server, network.folder, library)
    assert compared.latency_s > 0
    assert compared.worst_error is None


@pytest.mark.parametrize(
    ("processor", "refused"),
    [
        ({"mtriple": "riscv64-linux-gnu"}, "the target is for riscv64"),
        ({"mcpu": "diamondrapids"}, "killed by SIGILL"),
    ],
    ids=["architecture", "instructions"],
)
def test_compile_refuses_a_target_that_this_host_cannot_run(
    fork_server: ForkServer, tmp_path: Path, processor: dict[str, object], refused: str
) -> None:
    model = flattened()
    imported = ImportedModel(str(tvm.ir.save_json(model.module)), model.weights, "test", ())
    target = json.dumps({"kind": "llvm", "num-cores": 1, **processor})
    with pytest.raises(BadInput, match=refused) as error:
        ModelCompiler(fork_server, tmp_path / "elsewhere").compile(imported, target, "elsewhere")
    assert error.value.field == "target"
    assert not (tmp_path / "elsewhere").exists()


def test_compile_leaves_nothing_behind_after_an_error(fork_server: ForkServer, tmp_path: Path) -> None:
    model = flattened()
    imported = ImportedModel(str(tvm.ir.save_json(model.module)), model.weights, "test", ())
    folder = tmp_path / "refused"
    for target, weights in (("host:0", model.weights), ("host:1", {"main": model.weights["main"][:1]})):
        with pytest.raises(BadInput):
            ModelCompiler(fork_server, folder).compile(replace(imported, weights=weights), target, "refused")
        assert not folder.exists()


def test_compile_refuses_kernels_that_call_functions_by_name(fork_server: ForkServer, tmp_path: Path) -> None:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((8,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit_te(topi.argsort, x))
    imported = ImportedModel(str(tvm.ir.save_json(builder.get())), {"main": ()}, "test", ())
    with pytest.raises(BadInput, match="call functions of the process that they name") as error:
        ModelCompiler(fork_server, tmp_path / "refused").compile(imported, "host:1", "refused")
    assert error.value.field == "model"
    assert "--functions" in error.value.fix
    assert not (tmp_path / "refused").exists()


def test_compile_replaces_a_model_and_refuses_one_with_wrong_results(
    fork_server: ForkServer, small: CompiledOnce, tmp_path: Path
) -> None:
    model, folder = small.model, Path(shutil.copytree(small.folder, tmp_path / "model"))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    wrong = ModelReference("main", model.inputs, (model.expected(*model.inputs) + 1,))
    imported = ImportedModel(str(tvm.ir.save_json(model.module)), model.weights, "test", (), (wrong,))
    with pytest.raises(BadInput, match="differ from its framework's"):
        ModelCompiler(fork_server, folder).compile(imported, "host:1", "wrong")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    right = ModelReference("main", model.inputs, (model.expected(*model.inputs),))
    compilation = ModelCompiler(fork_server, folder).compile(replace(imported, references=(right,)), "host:1", "right")
    assert compilation.manifest.verified is not None
    assert compilation.manifest.verified.reference == "framework"
    assert sorted(path.name for path in folder.iterdir()) == sorted(before)
