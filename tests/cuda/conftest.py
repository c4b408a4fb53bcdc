"""Stand-ins: this host's processor as a graphics processor, and a library as the driver of one."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tvm
from elftools.elf.elffile import ELFFile

from tests.cuda.toolkits import installed_toolkit
from tests.workers.measuring import RunningFarm, running_farms
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.cuda.cuda_farm import CudaFarm
from tunefarm_workers.cuda.cuda_settings import CudaSettings
from tunefarm_workers.cuda.gpu_lane import PRELOAD as GPU_PRELOAD

HERE = str(Path(__file__).parent)
FarmOf = Callable[..., RunningFarm]


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start([*GPU_PRELOAD, "hostile_kernels:arm"], environment={"PYTHONPATH": HERE}) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="package")
def farm_of(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarmOf]:
    def make(**changed: object) -> CudaFarm:
        chosen = {"device_type": "cpu", "build_lanes": 2, **changed}
        scratch = tmp_path_factory.mktemp("scratch")
        return CudaFarm(fork_server, CudaSettings(**chosen), scratch=scratch)  # type: ignore[arg-type]

    # Kernels crash or hang by calling a function of the C library, which must be allowed by name.
    with running_farms(make, callees=("abort", "raise", "pause")) as made:
        yield made


@pytest.fixture(scope="package")
def running(farm_of: FarmOf) -> RunningFarm:
    """One farm for most tests: it times its reference kernels once."""
    return farm_of(contexts=2, flush_bytes=4 << 20)


@pytest.fixture(scope="session")
def beside_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """TVM with its CUDA runtime, which needs the driver. In its place is a library with the same functions."""
    folder = tmp_path_factory.mktemp("driver")
    source = "".join(f"int {name}(void) {{ __builtin_abort(); }}\n" for name in _driver_functions())
    (folder / "driver.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so.1", "driver.c"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    paths = f"{folder}:{installed_toolkit() / 'lib'}"
    with ForkServer.start(GPU_PRELOAD, environment={"LD_LIBRARY_PATH": paths}) as server:
        assert server.ready(60), server.failure
        yield server


def _driver_functions() -> list[str]:
    with Path(tvm.__file__).with_name("lib").joinpath("libtvm_runtime_cuda.so").open("rb") as library:
        symbols = ELFFile(library).get_section_by_name(".dynsym").iter_symbols()
        return [each.name for each in symbols if re.match("cu[A-Z]", each.name) and each["st_shndx"] == "SHN_UNDEF"]
