"""Bundles of models build and run with a C compiler alone, and are checked against their manifest."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tvm

from tests.search.relax.models import (
    SmallModel,
    controlled,
    convolutional_network,
    flattened,
    plus,
    tuples,
    two_entries,
)
from tunefarm.bundle.bundle_build import BuiltBundle, BundleBuilder
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.frontend.model_import import ImportedModel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.bundle import BundleForm

WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")
FLAGS = ("-O1", "-Wl,--gc-sections", "-I.", "-Iruntime")


def imported(model: SmallModel) -> ImportedModel:
    return ImportedModel(str(tvm.ir.save_json(model.module)), model.weights, "test", ())


def built(
    fork_server: ForkServer, model: ImportedModel, folder: Path, form: BundleForm = "objects", entry: str | None = None
) -> BuiltBundle:
    return BundleBuilder(fork_server).build(model, "host:1", "Small net", form, folder, entry)


@pytest.fixture(scope="module")
def network(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(fork_server, imported(flattened()), tmp_path_factory.mktemp("bundles") / "network").folder


def self_test(folder: Path, program: Path, warnings: Sequence[str] = WARNINGS) -> "subprocess.CompletedProcess[str]":
    sources = ["model.c", *sorted(str(each.relative_to(folder)) for each in folder.glob("kernels/*"))]
    sources += sorted(str(each.relative_to(folder)) for each in folder.glob("runtime/*.c"))
    command = ["cc", *warnings, *FLAGS, *sources, "-lm", "-pthread", "-o", str(program)]
    subprocess.run(command, cwd=folder, check=True, timeout=600)
    return subprocess.run(
        [str(program), str(folder), "2", "2"], capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.parametrize(
    ("model", "entry", "form"),
    [
        pytest.param(convolutional_network, None, "c", marks=pytest.mark.extended),
        (tuples, None, "objects"),
        (two_entries, "decode", "c"),
    ],
)
def test_bundle_computes_the_model_without_tvm(
    fork_server: ForkServer, model: Callable[[], SmallModel], entry: str | None, form: BundleForm, tmp_path: Path
) -> None:
    bundle = built(fork_server, imported(model()), tmp_path / "bundle", form, entry)
    assert bundle.manifest.vectors
    ended = self_test(bundle.folder, tmp_path / "self_test")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "1 vectors, worst error" in ended.stdout


@pytest.mark.faults
def test_bundle_of_objects_computes_the_model(network: Path, tmp_path: Path) -> None:
    ended = self_test(network, tmp_path / "self_test")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_self_test_notices_other_weights(network: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(network, tmp_path / "bundle")
    weights = bytearray((folder / "weights.bin").read_bytes())
    weights[3] ^= 0x40  # an exponent
    (folder / "weights.bin").write_bytes(weights)
    assert self_test(folder, tmp_path / "self_test").returncode == 1


def test_bundle_builds_with_cmake(network: Path, tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    for command in ([cmake, "-S", network, "-B", tmp_path, "-DCMAKE_BUILD_TYPE=Release"], [cmake, "--build", tmp_path]):
        subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=600)
    subprocess.run([str(tmp_path / "self_test"), str(network)], check=True, capture_output=True, timeout=600)


def test_equal_builds_have_equal_files(fork_server: ForkServer, network: Path, tmp_path: Path) -> None:
    again = built(fork_server, imported(flattened()), tmp_path / "elsewhere" / "again").folder
    files = {path.relative_to(network) for path in network.rglob("*") if path.is_file()}
    assert files == {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    assert all((network / each).read_bytes() == (again / each).read_bytes() for each in files)


PROGRAM = """
#include <stdio.h>
#include "one/model.h"
#include "two/model.h"
static _Alignas(64) float given[4], made[4], arena[16];
int main(void) {
  const TunefarmModel *models[] = {&model_one, &model_two};
  void *inputs[] = {given}, *outputs[] = {made};
  for (int i = 0; i < 2; ++i) {
    if (tunefarm_model_run(models[i], NULL, arena, inputs, outputs) != 0) return 1;
    printf("%g ", made[0]);
  }
  return 0;
}
"""


@pytest.mark.parametrize("form", ["objects", "c"])
@pytest.mark.quick_cases(1)
def test_program_links_several_bundles(fork_server: ForkServer, form: BundleForm, tmp_path: Path) -> None:
    for name, number in (("one", 1.5), ("two", 2.5)):
        BundleBuilder(fork_server).build(imported(plus(number)), "host:1", name, form, tmp_path / name)
    (tmp_path / "main.c").write_text(PROGRAM)
    parts = [each.relative_to(tmp_path) for each in (*tmp_path.glob("*/kernels/*"), *tmp_path.glob("*/model.c"))]
    runtime = ["one/runtime/tunefarm_model.c", "one/runtime/tunefarm_runtime.c"]
    command = ["cc", "-std=c11", "-I.", "-Ione/runtime", "main.c", *map(str, parts), *runtime, "-lm", "-pthread"]
    subprocess.run([*command, "-o", "program"], cwd=tmp_path, check=True, timeout=600)
    ended = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "1.5 2.5 ")


def test_bundle_as_built_is_accepted(network: Path) -> None:
    manifest, folder = read_bundle(str(network))
    assert folder == network
    assert manifest.name == "model_small_net"


def changed(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def linked(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    (path.parent.parent / "elsewhere").write_bytes(content)
    path.symlink_to(path.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda folder: changed(folder / "weights.bin"), "'weights.bin' does not match"),
        (lambda folder: (folder / "model.c").unlink(), "'model.c' is missing"),
        (lambda folder: (folder / "kernels/more.o").write_bytes(b""), "'kernels/more.o', which its manifest"),
        (lambda folder: linked(folder / "model.h"), "'model.h' does not match"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "not that of a bundle"),
        (lambda folder: (folder / "manifest.json").unlink(), "does not contain a bundle"),
    ],
)
def test_changed_bundle_is_rejected(
    network: Path, change: Callable[[Path], object], problem: str, tmp_path: Path
) -> None:
    folder = shutil.copytree(network, tmp_path / "bundle")
    change(folder)
    with pytest.raises(BadInput, match=problem):
        read_bundle(str(folder))


def test_manifest_cannot_name_files_outside(network: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(network, tmp_path / "bundle")
    (tmp_path / "secret").write_bytes(b"")
    text = (folder / "manifest.json").read_text().replace('"weights.bin"', '"../secret"', 1)
    (folder / "manifest.json").write_text(text)
    with pytest.raises(BadInput, match="names the path"):
        read_bundle(str(folder))


def test_model_with_control_flow_leaves_no_folder(fork_server: ForkServer, tmp_path: Path) -> None:
    model = ImportedModel(str(tvm.ir.save_json(controlled())), {}, "test", ())
    with pytest.raises(BadInput, match="which needs TVM's virtual machine"):
        built(fork_server, model, tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_folder_with_files_is_left_alone(fork_server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(BadInput, match="is not an empty folder"):
        built(fork_server, imported(flattened()), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
