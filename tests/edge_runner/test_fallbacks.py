"""A release of several variants: each device gets the best one whose instructions it has, or none."""

import json
import shutil
from pathlib import Path

import pytest

from tests.client.bundle.test_bundle_records import MODEL
from tests.edge_runner.toolchain import Device, Publisher, text_of
from tests.servers.command_server import Ended, run_command
from tests.servers.processes import environment_without_settings
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.release.bundle_variant import best_first
from tunefarm.release.bundle_variant import read_bundle as read_variant
from tunefarm_edge.refusal import Refused
from tunefarm_edge.trust.device_facts import variant_for
from tunefarm_schemas.edge.device import EdgeFacts
from tunefarm_schemas.edge.release import Architecture, Release

TIMEOUT_S = 900.0
BEST = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v3", "num-cores": 1}
MIDDLE = BEST | {"mcpu": "x86-64-v2"}
CLASS = "of one device class"


def build(folder: Path, *words: str) -> Ended:
    environment = {**environment_without_settings(), "TUNEFARM_HOME": str(folder / "home")}
    command = ("bundle", "build", "net.py:model", "--form", "library", "--no-timing", *words)
    return run_command(*command, environment=environment, folder=folder, timeout_s=TIMEOUT_S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("variants")
    (made / "net.py").write_text(MODEL)
    targets = ("--target", json.dumps(BEST), "--fallback", json.dumps(MIDDLE), "--fallback", "generic")
    ended = build(made, *targets, "--device-class", CLASS, "--output", "net")
    assert ended.code == 0, ended.err
    return made


@pytest.fixture(scope="module")
def release(folder: Path) -> Release:
    variants = [read_variant(folder / "net" / name).variant for name in ("2", "0", "1")]
    return Release(name="net-1", model="model_net", variants=best_first(variants))


def facts(*features: str, architecture: Architecture = "x86_64", own_class: str | None = None) -> EdgeFacts:
    return EdgeFacts(
        architecture=architecture,
        cpu_features=features,
        device_class_id=own_class,
        agent_version="0",
        runtime_abi=1,
        free_bytes=1 << 30,
        operating_system="",
    )


def test_manifest_names_the_fallbacks(folder: Path) -> None:
    manifests = [read_bundle(str(folder / "net" / name))[0] for name in ("0", "1", "2")]
    needs = [each.requires for each in manifests]
    assert [each.fallbacks for each in manifests] == [tuple(needs[1:]), tuple(needs[2:]), ()]
    first, middle, last = (each for each in needs if each is not None)
    assert (first.device_class_id, middle.device_class_id, last.device_class_id) == (CLASS, None, None)
    assert set(first.cpu_features) > set(middle.cpu_features) > set(last.cpu_features) == set()
    assert "mcpu" not in json.loads(manifests[2].target)


def test_device_gets_the_best_variant_that_it_can_run(release: Release) -> None:
    best, middle, last = release.variants
    assert variant_for(release, facts(*best.cpu_features, own_class=CLASS)) == best
    assert variant_for(release, facts(*best.cpu_features, own_class="of another class")) == middle
    for missing in best.cpu_features:
        has = [each for each in best.cpu_features if each != missing]
        expected = last if missing in middle.cpu_features else middle
        assert variant_for(release, facts(*has, own_class=CLASS)) == expected, missing
    assert variant_for(release, facts()) == last


@pytest.mark.parametrize("architecture", ["aarch64", "armv7", "riscv64"])
def test_device_of_another_architecture_gets_none(release: Release, architecture: Architecture) -> None:
    with pytest.raises(Refused) as refused:
        variant_for(release, facts(*release.variants[0].cpu_features, architecture=architecture))
    assert refused.value.failure == "wrong_target"


def test_release_without_a_fallback_is_refused(release: Release) -> None:
    alone = release.model_copy(update={"variants": release.variants[:1]})
    with pytest.raises(Refused) as refused:
        variant_for(alone, facts(own_class=CLASS))
    assert refused.value.failure == "wrong_target"


def test_fallback_that_no_device_gets_is_rejected(folder: Path) -> None:
    same = ("--target", json.dumps(MIDDLE), "--fallback", json.dumps(BEST))
    ended = build(folder, *same, "--output", "reversed")
    assert (ended.code, "each device that can run variant 1 can run variant 0" in ended.err) == (2, True), ended.err
    assert not (folder / "reversed").exists()
    assert "Add --form library" in build(folder, "--form", "c", "--fallback", "generic", "--output", "c").err


def test_runner_runs_a_bundle_only_where_its_instructions_are(
    folder: Path, device: Device, publisher: Publisher, tmp_path: Path
) -> None:
    bundle = shutil.copytree(folder / "net/1", tmp_path / "bundle")
    requires = read_bundle(str(bundle))[0].requires
    assert requires is not None
    needed = ",".join(requires.cpu_features)
    publisher.sign(bundle, text_of(bundle, 7, features=needed))
    own = set(device("features").stdout.split())
    assert set(requires.cpu_features) <= own, "this machine is an x86-64 of the second level"
    assert device.refusal("run", bundle) == ""
    publisher.sign(bundle, text_of(bundle, 7, features=f"{needed},no_such_instruction"))
    assert device.refusal("run", bundle) == "wrong_target"
