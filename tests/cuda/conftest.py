"""A farm for a graphics processor that uses this host's processor as its device."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.workers.measuring import RunningFarm, running_farms
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.cuda.cuda_farm import CudaFarm
from tunefarm_workers.cuda.cuda_settings import CudaSettings

HERE = str(Path(__file__).parent)
FarmOf = Callable[..., RunningFarm]


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start([LOAD_TVM, "hostile_kernels:arm"], environment={"PYTHONPATH": HERE}) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture
def farm_of(fork_server: ForkServer, tmp_path: Path) -> Iterator[FarmOf]:
    def make(**changed: object) -> CudaFarm:
        chosen = {"device_type": "cpu", "build_lanes": 2, **changed}
        return CudaFarm(fork_server, CudaSettings(**chosen), scratch=tmp_path)  # type: ignore[arg-type]

    # Kernels crash or hang by calling a function of the C library, which must be allowed by name.
    with running_farms(make, callees=("abort", "raise", "pause")) as made:
        yield made
