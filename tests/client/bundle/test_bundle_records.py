"""Bundles of a tuned model: which records their schedules are from, and what other schedules leave unchanged."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import HANG_S
from tests.servers.command_server import Ended, run_command
from tests.servers.processes import environment_without_settings
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.startup.installation import open_store
from tunefarm_schemas.tuning.bundle import WASM_TARGET, BundleManifest, BundleRecord
from tunefarm_schemas.tuning.device import COLD_CACHE
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT

pytestmark = pytest.mark.faults

MODEL = """
import numpy as np
import tvm
from tvm import relax

builder = relax.BlockBuilder()
x = relax.Var("x", relax.TensorType((1, 64), "float32"))
with builder.function("main", [x], attrs={"num_input": 1}):
    with builder.dataflow():
        weight = relax.const(np.random.default_rng(0).standard_normal((64, 48)).astype("float32"))
        result = builder.emit_output(builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, weight)))))
    builder.emit_func_output(result)
model = builder.get()
"""

Tunefarm = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tuned")


@pytest.fixture(scope="module")
def tunefarm_json(folder: Path) -> Tunefarm:
    """The command in a folder with the model, and what it prints as JSON."""
    (folder / "net.py").write_text(MODEL)
    environment = {**environment_without_settings(), "TUNEFARM_HOME": str(folder / "home")}

    def run(*words: str) -> Any:
        ended: Ended = run_command(*words, "--json", environment=environment, folder=folder, timeout_s=HANG_S)
        assert ended.code == 0, ended.err
        return ended.json()

    return run


@pytest.fixture(scope="module")
def summary(tunefarm_json: Tunefarm) -> Any:
    return tunefarm_json("tune", "net.py:model", "--target", "host:1", "--trials", "3", "--output", "tuned")


@pytest.fixture(scope="module")
def record_id(summary: Any) -> str:
    return str(summary["tasks"][0]["record_id"])


def built(tunefarm_json: Tunefarm, name: str, *words: str, target: str = "host:1") -> BundleManifest:
    build = ("bundle", "build", "net.py:model", "--target", target, "--form", "library", "--no-timing")
    return read_bundle(tunefarm_json(*build, "--output", name, *words)["folder"])[0]


@pytest.fixture(scope="module")
def tuned(tunefarm_json: Tunefarm, record_id: str) -> BundleManifest:
    return built(tunefarm_json, "bundle")


def test_bundle_of_the_job_of_a_model_has_the_model(
    tunefarm_json: Tunefarm, folder: Path, summary: Any, record_id: str, tuned: BundleManifest
) -> None:
    words = ("bundle", "build", summary["job_id"], "--form", "library", "--no-timing", "--output")
    assert tunefarm_json(*words, "of-job")["files"] == [each.model_dump() for each in tuned.files]
    functions = tunefarm_json(*words, "functions", "--functions-only")
    assert (functions["weights_bytes"], functions["records"][0]["record_id"]) == (0, record_id)
    elsewhere = ("bundle", "build", summary["job_id"], "--form", "objects", "--target", WASM_TARGET, "--output", "wasm")
    assert [each["record_id"] for each in tunefarm_json(*elsewhere)["functions"]] == [record_id]
    (folder / "other.py").write_text(MODEL.replace("48", "40"))
    environment = {**environment_without_settings(), "TUNEFARM_HOME": str(folder / "home")}
    for more, problem in (
        (("--model", "other.py:model"), "did not tune"),
        (("--entry", "side"), "the model has no function 'side'"),
    ):
        ended = run_command(*words, "refused", *more, environment=environment, folder=folder, timeout_s=HANG_S)
        assert (ended.code, problem in ended.err) == (2, True), ended.err
    ended = run_command(*words, "refused", environment=environment, folder=folder / "home", timeout_s=HANG_S)
    assert (ended.code, "--model FILE" in ended.err) == (2, True), ended.err


def test_bundle_has_the_records_of_its_schedules(
    tunefarm_json: Tunefarm, record_id: str, tuned: BundleManifest
) -> None:
    assert [(each.kind, each.record_id) for each in tuned.functions] == [("record", record_id)]
    record = tunefarm_json("records", "show", record_id)["record"]
    expected = BundleRecord(
        record_id=record_id,
        trace=record["trace"]["text"],
        latency_s=record["latency_s"],
        interval_s=record["interval_s"],
        protocol_id=record["key"]["protocol_id"],
        device_class_id=record["key"]["device_class_id"],
    )
    assert tuned.records == (expected,)
    assert json.loads(expected.trace)[0], "a schedule with instructions"
    assert (expected.latency_s > 0, expected.protocol_id) == (True, "cpu-hot-cache/1")


def test_record_of_another_protocol_does_not_come_first(
    tunefarm_json: Tunefarm, record_id: str, tuned: BundleManifest, folder: Path
) -> None:
    with closing(open_store(Settings(home=folder / "home"))) as store:
        own = store.records.get(LOCAL_TENANT, record_id)
        key = own.key.model_copy(update={"protocol_id": COLD_CACHE.protocol_id})
        changes = {"record_id": "0" * 32, "key": key, "latency_s": own.latency_s / 2, "interval_s": None}
        store.records.put(LOCAL_TENANT, None, own.model_copy(update=changes))
    assert built(tunefarm_json, "again").records == tuned.records


def test_other_schedules_keep_weights_and_vectors(tunefarm_json: Tunefarm, tuned: BundleManifest) -> None:
    untried = built(tunefarm_json, "untried", "--fresh")
    assert untried.records == ()
    assert [each.kind for each in untried.functions] == ["untried"]
    assert unchanged(untried) == unchanged(tuned)


@pytest.mark.parametrize("mcpu", ["x86-64-v2", "x86-64-v3"])
def test_other_instruction_sets_keep_weights_and_vectors(
    tunefarm_json: Tunefarm, tuned: BundleManifest, mcpu: str
) -> None:
    target = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": mcpu, "num-cores": 1}
    other = built(tunefarm_json, mcpu, target=json.dumps(target))
    assert unchanged(other) == unchanged(tuned)
    assert digest(other, "model.so") != digest(tuned, "model.so")


def unchanged(manifest: BundleManifest) -> set[tuple[str, str]]:
    """The paths and digests of files that do not depend on schedules and instructions."""
    kept = {(each.path, each.digest) for each in manifest.files if each.path.startswith(("weights", "vectors/"))}
    assert len(kept) == 3
    return kept


def digest(manifest: BundleManifest, path: str) -> str:
    return next(each.digest for each in manifest.files if each.path == path)
