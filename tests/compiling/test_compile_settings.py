"""What compile workers and those who use them may be told."""

import pytest

from tests.workers.workloads import TARGET
from tunefarm_schemas.bad_input import BadInput
from tunefarm_workers.compile.compile_settings import CompileSettings
from tunefarm_workers.compile.lane import compile_settings
from tunefarm_workers.gateway.lane import gateway_settings
from tunefarm_workers.worker.settings import WorkerSettings


def test_a_pool_says_how_libraries_are_made() -> None:
    settings = CompileSettings(pool="cortex-a72", linker="aarch64-linux-gnu-g++ -O2", linker_flags="-lm -lc")
    toolchain = settings.toolchain()
    assert toolchain.linker == ("aarch64-linux-gnu-g++", "-O2")
    assert toolchain.linker_flags == ("-lm", "-lc")
    assert toolchain.compiler == ""


def test_a_compiler_for_cuda_that_is_not_installed_is_named() -> None:
    with pytest.raises(BadInput, match=r"version\.json"):
        CompileSettings(pool="cards", cuda_compiler="nvcc", cuda_toolkit="/nonexistent").toolchain()


@pytest.mark.parametrize("pool", ["", "Two Words", "../up", "a" * 41, "star*", "line\n"])
def test_a_pool_that_is_no_word_is_refused(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEFARM_COMPILE_POOL", pool)
    with pytest.raises(BadInput) as refused:
        compile_settings()
    assert refused.value.field == "TUNEFARM_COMPILE_POOL"


def test_a_gateway_names_its_pool_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNEFARM_GATEWAY_TARGET", TARGET)
    monkeypatch.setenv("TUNEFARM_GATEWAY_BOARD", "a board")
    assert gateway_settings().compile_pool == ""
    monkeypatch.setenv("TUNEFARM_GATEWAY_COMPILE_POOL", "cortex-a72")
    assert gateway_settings().compile_pool == "cortex-a72"
    monkeypatch.setenv("TUNEFARM_GATEWAY_COMPILE_POOL", "no word")
    with pytest.raises(BadInput) as refused:
        gateway_settings()
    assert refused.value.field == "TUNEFARM_GATEWAY_COMPILE_POOL"


def test_compile_is_a_kind_of_worker() -> None:
    assert WorkerSettings(worker_kind="compile").worker_kind == "compile"
