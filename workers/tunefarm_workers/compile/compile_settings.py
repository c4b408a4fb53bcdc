"""Settings of a compile worker."""

import shlex
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from tunefarm_schemas.host_cores import usable_processors
from tunefarm_workers.compile.compile_messages import POOL_PATTERN
from tunefarm_workers.compile.cuda_toolchain import cuda_toolchain
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.session.device.session_messages import Toolchain


class CompileSettings(BaseSettings):
    """From the environment, each name with the prefix ``TUNEFARM_COMPILE_``.

    Attributes:
        pool: name of the pool, which its requesters set as ``COMPILE_POOL``. Its lanes have the same toolchain.
        linker: command that links shared libraries, with options; empty for this host's C compiler.
        linker_flags: arguments after the objects.
        build_lanes: maximum concurrent builds.
        cuda_compiler: ``nvrtc`` or ``nvcc`` for a pool that compiles for graphics processors; empty for none.
        cuda_toolkit: folder of the CUDA toolkit.
    """

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_COMPILE_", frozen=True)

    pool: str = Field(pattern=f"^{POOL_PATTERN}$")
    linker: str = ""
    linker_flags: str = "-lm"
    build_lanes: int = Field(default_factory=usable_processors, ge=1)
    cuda_compiler: Literal["", "nvrtc", "nvcc"] = ""
    cuda_toolkit: str = "/usr/local/cuda"

    def toolchain(self) -> Toolchain:
        """How libraries are compiled on this host. Raises BadInput if the CUDA compiler is not installed."""
        base = Toolchain(linker=tuple(shlex.split(self.linker)), linker_flags=tuple(self.linker_flags.split()))
        return cuda_toolchain(self.cuda_compiler, self.cuda_toolkit, base) if self.cuda_compiler else base

    def farm_settings(self) -> FarmSettings:
        """The settings that all farms share."""
        return FarmSettings(build_lanes=self.build_lanes)
