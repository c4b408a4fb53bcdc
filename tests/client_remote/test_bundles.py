"""Bundles that a running service builds, from a request to files on this machine."""

import asyncio
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.client.bundle.bundle_library import computed
from tests.client.bundle.cuda_functions import functions, gpu_target
from tests.client.bundle.emulated_gpu.test_emulated_bundle import self_test
from tests.client.bundle.test_bundle_records import MODEL
from tests.client_remote.conftest import Service
from tests.servers.tuned_home import tuned_home
from tests.store.sample import record, record_key
from tunefarm import ApiError, AsyncClient, Client
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.startup.installation import open_store
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_services.settings import Settings
from tunefarm_services.store import LOCAL_TENANT

BUILD_S = 600.0


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The job and the record that the service began with."""
    summary = tuned_home(tmp_path_factory).summary
    return {"job_id": summary["job_id"], "record_id": summary["tasks"][0]["record_id"]}


@pytest.mark.faults
def test_command_gets_the_bundle_that_this_machine_would_build(service: Service, task: Any, tmp_path: Path) -> None:
    build = ("artifact", "build", task["record_id"][:20], "--form", "library", "--no-timing", "--json")
    there = service.command(*build, "--output", str(tmp_path / "there"), "--remote", timeout_s=BUILD_S)
    assert there.code == 0, there.err
    here = service.command(*build, "--output", str(tmp_path / "here"), timeout_s=BUILD_S)
    assert here.code == 0, here.err
    built_there, built_here = (read_bundle(str(tmp_path / name))[0] for name in ("there", "here"))
    assert [each.record_id for each in built_there.functions] == [task["record_id"]]
    same = {"vectors/0/input0.bin", "vectors/0/output0.bin", "weights.bin"}
    files = [{each.path: each.digest for each in one.files if each.path in same} for one in (built_there, built_here)]
    assert (files[0], len(files[0])) == (files[1], 3)
    assert computed(tmp_path / "there", built_there, b"")[0].size == 64 * 64


@pytest.mark.faults
def test_client_gets_a_bundle_of_a_job(service: Service, task: Any, tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        made = client.bundles.create(job_id=task["job_id"], form="c", target="raspberry-pi-4", name="net")
        found = client.bundles.content(made.bundle_id, timeout_s=BUILD_S)
        assert found.view.outcome == "succeeded"
        manifest = found.write(tmp_path / "bundle")
        assert (manifest.form, manifest.name, "cortex-a72" in manifest.target) == ("c", "model_net", True)
        assert (tmp_path / "bundle/kernels/kernel0.c").is_file()
        again = client.bundles.create(job_id=task["job_id"], form="c", target="raspberry-pi-4", name="net")
        assert (
            client.bundles.content(again.bundle_id, timeout_s=BUILD_S).view.content_digest == found.view.content_digest
        )
        client.bundles.delete(made.bundle_id)
        assert made.bundle_id not in {each.bundle_id for each in client.bundles.list()}


def test_client_gets_a_bundle_of_a_model(service: Service, tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        upload_id = client.uploads.send(tvm.ir.save_json(network()).encode())
        made = client.bundles.create(upload_id=upload_id, form="library", target="host:1", name="net")
        found = client.bundles.content(made.bundle_id, timeout_s=BUILD_S)
    manifest = found.write(tmp_path / "bundle")
    assert (manifest.name, len(manifest.functions), manifest.weights_bytes > 0) == ("model_net", 1, True)
    weights = (tmp_path / "bundle/weights.bin").read_bytes()
    [result] = computed(tmp_path / "bundle", manifest, weights)
    expected = np.frombuffer((tmp_path / "bundle" / manifest.vectors[0].outputs[0]).read_bytes(), "float32")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def network() -> Any:
    """A layer with its weight as a constant."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 64), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = relax.const(np.random.default_rng(0).standard_normal((64, 48)).astype("float32"))
            result = builder.emit_output(builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, weight)))))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.faults
def test_bundle_of_a_job_has_the_model_that_was_submitted(service: Service, tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(str(tvm.ir.save_json(network())))
    target = '{"kind": "llvm", "num-cores": 1}'
    submitted = service.command("submit", str(tmp_path / "net.json"), "--target", target, "--trials", "1", "--json")
    job_id = submitted.json()["job_id"]
    with Client(service.url, service.token) as client:
        made = client.bundles.of_sources([job_id[:-1]], form="library", name="net")
        manifest = client.bundles.content(made.bundle_id, timeout_s=BUILD_S).write(tmp_path / "bundle")
    assert (manifest.name, len(manifest.functions), manifest.weights_bytes) == ("model_net", 1, 64 * 48 * 4)
    weights = (tmp_path / "bundle/weights.bin").read_bytes()
    [result] = computed(tmp_path / "bundle", manifest, weights)
    expected = np.frombuffer((tmp_path / "bundle" / manifest.vectors[0].outputs[0]).read_bytes(), "float32")
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.faults
def test_model_of_a_job_is_sent_with_it_or_with_the_request_for_a_bundle(service: Service, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    submit = ("submit", "net.py:model", "--target", "host:1", "--trials", "1", "--json")
    kept, sent = (
        service.command(*submit, *more, folder=tmp_path, timeout_s=BUILD_S).json()["job_id"]
        for more in (("--keep-model",), ())
    )
    build = ("artifact", "build", "--form", "c", "--remote", "--json")
    refused = service.command(*build, sent, "--output", "refused", folder=tmp_path, timeout_s=BUILD_S)
    assert (refused.code, "--model FILE" in refused.err) == (2, True), refused.err
    for job_id, more in ((kept, ()), (sent, ("--model", "net.py:model"))):
        ended = service.command(*build, job_id, *more, "--output", job_id, folder=tmp_path, timeout_s=BUILD_S)
        assert ended.code == 0, ended.err
        assert read_bundle(str(tmp_path / job_id))[0].weights_bytes == 64 * 48 * 4
    assert (tmp_path / kept / "weights.bin").read_bytes() == (tmp_path / sent / "weights.bin").read_bytes()
    here = service.command(
        "bundle", "build", kept, "--form", "c", "--output", "here", timeout_s=BUILD_S, folder=tmp_path
    )
    assert here.code == 0, here.err
    manifest = read_bundle(str(tmp_path / "here"))[0]
    assert (manifest.name, manifest.weights_bytes) == ("model_net", 64 * 48 * 4)
    others = service.command(*build, kept, sent, "--model", "net.py:model", "--output", "two", folder=tmp_path)
    assert (others.code, "beside records or several jobs" in others.err) == (2, True), others.err


@pytest.mark.faults
def test_clients_tune_a_model_that_its_job_keeps(service: Service, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    model = f"{tmp_path}/net.py:model"

    async def kept() -> str:
        async with AsyncClient(service.url, service.token) as client:
            return (await client.tune(model, target="host:1", trials=1, keep_model=True)).job_id

    with Client(service.url, service.token) as client:
        jobs = [
            client.tune(model, target="host:1", trials=1, keep_model=True),
            client.jobs.get(asyncio.run(kept())),
            client.tune(model, target="host:1", trials=1),
        ]
        for job in jobs[:2]:
            client.bundles.delete(client.bundles.of_sources([job.job_id], form="c").bundle_id)
        with pytest.raises(ApiError, match="only the model's functions were sent"):
            client.bundles.of_sources([jobs[2].job_id], form="c")
        for job in jobs:
            with suppress(ApiError):  # it has finished
                job.cancel()
        with pytest.raises(BadInput, match="not a model"):
            client.tune("builtin:softmax:8x8", keep_model=True)


def test_client_learns_why_a_bundle_cannot_be_built(service: Service, task: Any) -> None:
    with Client(service.url, service.token) as client:
        target = {"kind": "llvm", "mtriple": "hexagon-unknown-elf", "num-cores": 1}
        made = client.bundles.create([task["record_id"]], form="library", target=target)
        with pytest.raises(BadInput, match=r"could not be built.*no shared library or archive is linked for hexagon"):
            client.bundles.content(made.bundle_id, timeout_s=BUILD_S)
        with pytest.raises(BadInput, match="no record or job has the id 'zz'"):
            client.bundles.of_sources(["zz"], form="c")


@pytest.fixture(scope="module")
def gpu_records(service: Service) -> list[str]:
    """Records for a GPU, which no lane of the service has measured."""
    target = gpu_target()
    with closing(open_store(Settings(home=service.home))) as store:
        store.targets.put(LOCAL_TENANT, target)
        for each in functions():
            workload = store.workloads.put(LOCAL_TENANT, each.workload)
            key = record_key(workload_id=workload.workload_id, target_id=target.target_id)
            kept = record(each.record.record_id, 1e-3, key=key)
            store.records.put(LOCAL_TENANT, None, kept.model_copy(update={"trace": Trace(text=each.record.trace)}))
    return [each.record.record_id for each in functions()]


@pytest.mark.targets
def test_command_gets_the_bundle_for_a_gpu_that_this_machine_would_build(
    service: Service, gpu_records: list[str], tmp_path: Path
) -> None:
    build = ("artifact", "build", *gpu_records, "--form", "cuda", "--json", "--output")
    there = service.command(*build, str(tmp_path / "there"), "--remote", timeout_s=BUILD_S)
    assert there.code == 0, there.err
    here = service.command(*build, str(tmp_path / "here"), timeout_s=BUILD_S)
    assert here.code == 0, here.err
    built_there, built_here = (read_bundle(str(tmp_path / name))[0] for name in ("there", "here"))
    assert (built_there.form, built_there.requires_cuda) == ("cuda", built_here.requires_cuda)
    assert [each.record_id for each in built_there.functions] == gpu_records
    paths = {each.path for each in built_there.files}
    assert {f"kernels/kernel{number}.{kind}" for number in range(3) for kind in ("c", "cu", "fatbin")} <= paths
    assert built_there.files == built_here.files, "each file has the same digest"


@pytest.mark.targets
def test_client_gets_a_bundle_for_another_gpu(service: Service, gpu_records: list[str], tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        made = client.bundles.create(gpu_records[:1], form="cuda", target="nvidia-h100", name="twice")
        manifest = client.bundles.content(made.bundle_id, timeout_s=BUILD_S).write(tmp_path / "bundle")
    assert manifest.requires_cuda is not None
    assert (manifest.name, manifest.requires_cuda.architecture) == ("model_twice", "sm_90")


@pytest.mark.targets
def test_client_gets_a_bundle_of_a_model_for_a_gpu(service: Service, tmp_path: Path) -> None:
    with Client(service.url, service.token) as client:
        upload_id = client.uploads.send(tvm.ir.save_json(network()).encode())
        made = client.bundles.create(upload_id=upload_id, form="cuda", target="nvidia-a100", name="net")
        manifest = client.bundles.content(made.bundle_id, timeout_s=BUILD_S).write(tmp_path / "bundle")
    assert manifest.requires_cuda is not None
    assert (manifest.requires_cuda.architecture, manifest.weights_bytes) == ("sm_80", 64 * 48 * 4)
    ended = self_test(tmp_path / "bundle", tmp_path / "emulated")
    assert ended.returncode == 0, ended.stderr + ended.stdout
