"""Settings of a CUDA worker."""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from tunefarm_schemas.host_cores import usable_processors
from tunefarm_workers.compile.compile_messages import POOL_PATTERN
from tunefarm_workers.conversation.farm_settings import FarmSettings


class CudaSettings(BaseSettings):
    """From the environment, each name with the prefix ``TUNEFARM_CUDA_``.

    Attributes:
        index: the device, as ``nvidia-smi`` numbers them.
        device_type: ``cuda``; ``cpu`` uses this host's processor instead, to test an installation.
        compile_pool: pool of compile lanes on other hosts that build its libraries; empty compiles on this host.
        compiler: ``nvrtc`` compiles in-process (Python package cuda-bindings), ``nvcc`` runs the toolkit's compiler.
        toolkit: folder of the CUDA toolkit, for ``nvcc``.
        confined: whether the child that runs kernels is confined to the device's files. Kernels are untrusted code, so
            disable it only on a host without anything else of value.
        session_candidates: candidates after which the context is renewed.
        contexts: contexts that stay open, each with the inputs of one function; 0 for one per 4 GiB of the device's
            memory, 16 at most.
        flush_bytes: bytes written before each call with cold caches; more than the L2 cache.
        build_lanes: how many candidates are compiled at once.
        first_build_s: limit for compiling before any build was timed; later limits follow from earlier builds.
        min_build_s: what a build may always take. Kernels with large tiles take many times the median.
        first_run_s: limit for all calls of a kernel before anything is known of the task.
        reach_s: limit for creating a context and copying the inputs.
        run_allowance_s: time for sending a library and fetching outputs, on top of a kernel's own limit.
        check_every_s: interval at which the reference kernels are timed.
    """

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_CUDA_", frozen=True)

    index: int = Field(default=0, ge=0)
    device_type: Literal["cuda", "cpu"] = "cuda"
    compile_pool: str = Field(default="", pattern=f"^({POOL_PATTERN})?$")
    compiler: Literal["nvrtc", "nvcc"] = "nvrtc"
    toolkit: str = "/usr/local/cuda"
    confined: bool = True
    session_candidates: int = Field(default=64, ge=1)
    contexts: int = Field(default=0, ge=0)
    flush_bytes: int = Field(default=256 << 20, ge=1)
    reach_s: float = Field(default=60.0, gt=0)
    run_allowance_s: float = Field(default=5.0, gt=0)
    build_lanes: int = Field(default_factory=usable_processors, ge=1)
    first_build_s: float = Field(default=20.0, gt=0)
    min_build_s: float = Field(default=6.0, gt=0)
    first_run_s: float = Field(default=10.0, gt=0)
    check_every_s: float = Field(default=60.0, gt=0)

    def farm_settings(self) -> FarmSettings:
        """Return the settings that all farms share."""
        return FarmSettings(
            build_lanes=self.build_lanes,
            first_build_s=self.first_build_s,
            min_build_s=self.min_build_s,
            first_run_s=self.first_run_s,
            drift_check_s=self.check_every_s,
        )
