"""A lane on a GPU of this host."""

from pathlib import Path
from typing import Final

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.compile.elsewhere import elsewhere
from tunefarm_workers.cuda.cuda_farm import CudaFarm, facts_for
from tunefarm_workers.cuda.cuda_settings import CudaSettings
from tunefarm_workers.cuda.gpu_target import gpu_fingerprint
from tunefarm_workers.device.known_device import KnownDevice
from tunefarm_workers.worker.preloads import NVIDIA_SESSION
from tunefarm_workers.worker.settings import WorkerSettings
from tunefarm_workers.worker.settings_of_environment import settings_of_environment

PRELOAD: Final = NVIDIA_SESSION


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> CudaFarm:
    """Create a farm for the device that the variables ``TUNEFARM_CUDA_*`` name. Raises BadInput, ForkFailed."""
    cuda = cuda_settings()
    known = KnownDevice(settings.home, gpu_fingerprint(facts_for(cuda)))
    compiler = elsewhere(cuda.compile_pool, settings, blobs)
    farm = CudaFarm(fork_server, cuda, scratch=scratch, compiler=compiler, known=known.read())
    known.write(farm.device)
    return farm


def cuda_settings() -> CudaSettings:
    """Read the settings from the environment. Raises BadInput for the first invalid field."""
    return settings_of_environment(CudaSettings, "Correct it, or leave it out.")
