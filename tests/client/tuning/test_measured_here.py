"""A target that this machine cannot measure is refused before any work, with the commands that measure it."""

import json
import platform
from collections.abc import Callable

import pytest

from tests.servers.command_server import Ended
from tunefarm.options.measured_here import require_measured_here
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import architecture_named

IS_ARM = architecture_named(platform.machine()) == "aarch64"
OTHER, ARCHITECTURE = ("x86-64-v2", "x86_64") if IS_ARM else ("raspberry-pi-5", "aarch64")


def test_refusal_names_the_commands_that_serve() -> None:
    with pytest.raises(BadInput) as refused:
        require_measured_here(OTHER, "my net.onnx")
    assert refused.value.field == "target"
    assert f"it is for {ARCHITECTURE}, and this host" in refused.value.problem
    for command in (
        f"tunefarm submit 'my net.onnx' --target {OTHER}",
        "tunefarm worker start",
        "tunefarm worker start --kind rpc",
    ):
        assert command in refused.value.fix


def test_target_as_json_is_named_in_the_command() -> None:
    target = json.dumps({"kind": "llvm", "mtriple": "riscv64-linux-gnu"})
    with pytest.raises(BadInput) as refused:
        require_measured_here(target, "net.py")
    assert f"tunefarm submit net.py --target '{target}'" in refused.value.fix


def test_refusal_of_webassembly_names_its_bundles() -> None:
    with pytest.raises(BadInput) as refused:
        require_measured_here("wasm32-simd128")
    assert "tunefarm bundle build JOB --form wasm --output DIR" in refused.value.fix


@pytest.mark.parametrize("target", ["", "host", "host:2", "nvidia-h100", "{", '{"kind": "llvm"}', "[]", "no-preset"])
def test_other_targets_are_left_to_tvm(target: str) -> None:
    require_measured_here(target)


def test_tune_refuses_before_it_creates_anything(environment: dict[str, str], tunefarm: Callable[..., Ended]) -> None:
    ended = tunefarm("tune", "builtin:softmax:8x16", "--target", OTHER)
    assert (ended.code, f"tunefarm submit builtin:softmax:8x16 --target {OTHER}" in ended.err) == (2, True), ended.err
    assert "tunefarm worker start --kind rpc" in ended.err
