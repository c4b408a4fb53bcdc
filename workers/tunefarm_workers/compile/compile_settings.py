"""What a compile worker is told."""

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
        pool: whom it compiles for: those whose own ``COMPILE_POOL`` says the same. All lanes of a pool have the same
            toolchain.
        linker: the command that makes shared libraries, with options; empty takes this host's own compiler.
        linker_flags: further arguments behind the objects.
        build_lanes: how many libraries are compiled at once.
        cuda_compiler: ``nvrtc`` or ``nvcc`` for a pool that compiles for graphics processors; empty for none.
        cuda_toolkit: the folder of the CUDA toolkit.
    """

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_COMPILE_", frozen=True)

    pool: str = Field(pattern=f"^{POOL_PATTERN}$")
    linker: str = ""
    linker_flags: str = "-lm"
    build_lanes: int = Field(default_factory=usable_processors, ge=1)
    cuda_compiler: Literal["", "nvrtc", "nvcc"] = ""
    cuda_toolkit: str = "/usr/local/cuda"

    def toolchain(self) -> Toolchain:
        """How libraries are made on this host. Raises BadInput when the compiler for CUDA is not installed."""
        base = Toolchain(linker=tuple(shlex.split(self.linker)), linker_flags=tuple(self.linker_flags.split()))
        return cuda_toolchain(self.cuda_compiler, self.cuda_toolkit, base) if self.cuda_compiler else base

    def farm_settings(self) -> FarmSettings:
        """What a farm on any machine is told."""
        return FarmSettings(build_lanes=self.build_lanes)
