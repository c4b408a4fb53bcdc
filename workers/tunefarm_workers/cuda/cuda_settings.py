"""What a CUDA worker is told."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from tunefarm_schemas.host_cores import usable_processors
from tunefarm_workers.compile.compile_messages import POOL_PATTERN
from tunefarm_workers.conversation.farm_settings import FarmSettings


class CudaSettings(BaseSettings):
    """From the environment, each name with the prefix ``TUNEFARM_CUDA_``.

    Attributes:
        index: which of the host's devices, as ``nvidia-smi`` counts them.
        device_type: ``cuda``; ``cpu`` runs everything on this host's processor in its place, to try a set-up out.
        compile_pool: the pool of compile lanes, on other hosts, that make its libraries; empty compiles on this host.
        compiler: ``nvrtc`` compiles inside the process (Python package cuda-bindings), ``nvcc`` runs the toolkit's.
        toolkit: the folder of the CUDA toolkit, for ``nvcc``.
        confined: whether the child that runs kernels is confined to the device's files. Kernels come from outside, so
            turn it off only on a host that has nothing else to lose.
        session_candidates: after so many candidates the context is renewed.
        flush_bytes: written before each call where times with cold caches are wanted; more than the level two cache.
        build_lanes: how many candidates are compiled at once.
        first_build_s: what compiling may take before anything is known; later limits follow from what builds take.
        first_run_s: what all calls of a kernel may take before anything is known of the task.
        reach_s: how long making a context and bringing the inputs there may take.
        run_allowance_s: what sending a library and fetching outputs may take on top of a kernel's own limit.
        check_every_s: how often the reference kernels are timed.
    """

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_CUDA_", frozen=True)

    index: int = Field(default=0, ge=0)
    device_type: Literal["cuda", "cpu"] = "cuda"
    compile_pool: str = Field(default="", pattern=f"^({POOL_PATTERN})?$")
    compiler: Literal["nvrtc", "nvcc"] = "nvrtc"
    toolkit: str = "/usr/local/cuda"
    confined: bool = True
    session_candidates: int = Field(default=64, ge=1)
    flush_bytes: int = Field(default=256 << 20, ge=1)
    reach_s: float = Field(default=60.0, gt=0)
    run_allowance_s: float = Field(default=5.0, gt=0)
    build_lanes: int = Field(default_factory=usable_processors, ge=1)
    first_build_s: float = Field(default=20.0, gt=0)
    first_run_s: float = Field(default=10.0, gt=0)
    check_every_s: float = Field(default=60.0, gt=0)

    def farm_settings(self) -> FarmSettings:
        """What a farm on any machine is told."""
        return FarmSettings(
            build_lanes=self.build_lanes,
            first_build_s=self.first_build_s,
            first_run_s=self.first_run_s,
            drift_check_s=self.check_every_s,
        )
