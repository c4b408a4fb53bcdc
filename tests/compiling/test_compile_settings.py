"""Settings of compile workers and of gateways that use them."""

import pytest

from tests.workers.workloads import TARGET
from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.compile.compile_settings import CompileSettings
from tunefarm_workers.compile.pool_lane import compile_settings
from tunefarm_workers.gateway.board_lane import gateway_settings
from tunefarm_workers.worker.settings import WorkerSettings


def test_compile_settings_define_the_toolchain() -> None:
    settings = CompileSettings(pool="cortex-a72", linker="aarch64-linux-gnu-g++ -O2", linker_flags="-lm -lc")
    toolchain = settings.toolchain()
    assert toolchain.linker == ("aarch64-linux-gnu-g++", "-O2")
    assert toolchain.linker_flags == ("-lm", "-lc")
    assert toolchain.compiler == ""


def test_missing_cuda_compiler_is_reported() -> None:
    with pytest.raises(BadInput, match=r"version\.json"):
        CompileSettings(pool="cards", cuda_compiler="nvcc", cuda_toolkit="/nonexistent").toolchain()


@pytest.mark.parametrize("pool", ["", "Two Words", "../up", "a" * 41, "star*", "line\n"])
def test_invalid_pool_name_is_refused(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEFARM_COMPILE_POOL", pool)
    with pytest.raises(BadInput) as refused:
        compile_settings()
    assert refused.value.field == "TUNEFARM_COMPILE_POOL"


def test_gateway_validates_compile_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEFARM_GATEWAY_TARGET", TARGET)
    monkeypatch.setenv("TUNEFARM_GATEWAY_BOARD", "a board")
    assert gateway_settings().compile_pool == ""
    monkeypatch.setenv("TUNEFARM_GATEWAY_COMPILE_POOL", "cortex-a72")
    assert gateway_settings().compile_pool == "cortex-a72"
    monkeypatch.setenv("TUNEFARM_GATEWAY_COMPILE_POOL", "no word")
    with pytest.raises(BadInput) as refused:
        gateway_settings()
    assert refused.value.field == "TUNEFARM_GATEWAY_COMPILE_POOL"


def test_worker_kind_compile_is_accepted() -> None:
    assert WorkerSettings(worker_kind="compile").worker_kind == "compile"
