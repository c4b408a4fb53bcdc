"""Settings of a gateway worker."""

import ipaddress
import json
import shlex
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tunefarm_schemas.host_cores import usable_processors
from tunefarm_workers.compile.compile_messages import POOL_PATTERN
from tunefarm_workers.conversation.farm_settings import FarmSettings


class GatewaySettings(BaseSettings):
    """From the environment, each name with the prefix ``TUNEFARM_GATEWAY_``.

    TVM's RPC has no authentication and runs whatever it receives, so the board is reached over loopback only: forward
    its port through a tunnel, such as ``ssh -L``. ``allow_tunnel_address`` permits a private tunnel's address instead.

    Attributes:
        host: IP address; 127.0.0.1 or ::1 unless ``allow_tunnel_address``.
        port: port of the board's RPC server, or of the tunnel to it.
        key: the key that the server was started with.
        target: TVM target as a JSON object; ``num-cores`` is the number of the board's cores.
        board: name; part of its device class with the other declared facts.
        serial: distinguishes boards of one name; defaults to their address.
        compile_pool: pool of compile lanes on other hosts that build its libraries; empty compiles on this host.
        linker: command with options that links shared libraries for it; empty uses this host's compiler.
        linker_flags: further arguments after the objects.
        session_s: time after which the board ends a session, and with it a hanging kernel.
        session_candidates: candidates per session.
        reach_s: limit for connecting and sending the inputs, on top of waiting for the board to end a session.
        build_lanes: how many candidates are compiled at once.
        first_build_s: limit for compiling before any build was timed; later limits follow from earlier builds.
        first_run_s: limit for all calls of a kernel before anything is known of the task.
        patience_s: time after which an unreachable board is given up, and its pending candidates fail.
        losses: consecutive losses that put it into quarantine.
        quarantine_s: duration of the quarantine.
        check_every_s: interval at which its reference kernels are timed.
    """

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_GATEWAY_", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=9090, ge=1, le=65535)
    key: SecretStr = SecretStr("")
    allow_tunnel_address: bool = False
    target: str
    board: str = Field(min_length=1)
    serial: str = ""
    vendor: str = ""
    family: str = ""
    model: str = ""
    device_type: Literal["cpu"] = "cpu"
    compile_pool: str = Field(default="", pattern=f"^({POOL_PATTERN})?$")
    linker: str = ""
    linker_flags: str = "-lm"
    session_s: float = Field(default=30.0, ge=2)
    session_candidates: int = Field(default=16, ge=1)
    reach_s: float = Field(default=10.0, gt=0)
    build_lanes: int = Field(default_factory=usable_processors, ge=1)
    first_build_s: float = Field(default=8.0, gt=0)
    first_run_s: float = Field(default=10.0, gt=0)
    run_allowance_s: float = Field(default=5.0, gt=0)
    patience_s: float = Field(default=120.0, gt=0)
    losses: int = Field(default=3, ge=1)
    quarantine_s: float = Field(default=30.0, gt=0)
    check_every_s: float = Field(default=60.0, gt=0)

    @field_validator("key")
    @classmethod
    def _has_no_space(cls, key: SecretStr) -> SecretStr:
        if any(character.isspace() for character in key.get_secret_value()):
            raise ValueError("the key contains a space, which separates options in the protocol")
        return key

    @field_validator("target")
    @classmethod
    def _is_a_processor(cls, target: str) -> str:
        try:
            attributes = json.loads(target)
            kind, cores = attributes["kind"], int(attributes["num-cores"])
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError('give JSON such as {"kind":"llvm","mtriple":"aarch64-linux-gnu","num-cores":4}') from error
        if kind != "llvm" or cores < 1:
            raise ValueError("the target of a board needs the kind llvm and num-cores of at least 1")
        return target

    @model_validator(mode="after")
    def _is_local(self) -> "GatewaySettings":
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError as error:
            raise ValueError("host must be an IP address such as 127.0.0.1; names are not resolved") from error
        if not address.is_loopback and not self.allow_tunnel_address:
            raise ValueError(
                f"host {self.host} is not loopback. TVM's RPC has no authentication: forward the port through a tunnel "
                "to 127.0.0.1, or set allow_tunnel_address if the address is that of a private tunnel"
            )
        if self.session_s <= self.first_run_s + self.run_allowance_s:
            raise ValueError("session_s must exceed the sum of first_run_s and run_allowance_s")
        return self

    @property
    def cores(self) -> int:
        """The number of the board's cores."""
        return int(json.loads(self.target)["num-cores"])

    def linker_command(self) -> tuple[str, ...]:
        """Return the linker and its options as a list of arguments."""
        return tuple(shlex.split(self.linker))

    def farm_settings(self) -> FarmSettings:
        """Return the settings that all farms share."""
        return FarmSettings(
            build_lanes=self.build_lanes,
            first_build_s=self.first_build_s,
            first_run_s=self.first_run_s,
            drift_check_s=self.check_every_s,
        )
