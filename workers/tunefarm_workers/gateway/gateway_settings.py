"""What a gateway worker is told of its board."""

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

    TVM's RPC authenticates nobody and runs what it is sent, so the board is reached over loopback only: its port is
    forwarded by a tunnel, such as ``ssh -L``. ``allow_tunnel_address`` permits the address of a private tunnel instead.

    Attributes:
        host: an IP address; 127.0.0.1 or ::1 unless ``allow_tunnel_address``.
        port: of the board's RPC server, or of the tunnel to it.
        key: what the server was started with as its key.
        target: what code is generated for, as JSON of an object; its ``num-cores`` is how many cores the board has.
        board: its name, which with the other declared facts makes its device class.
        serial: tells boards of one kind apart; by default their address.
        compile_pool: the pool of compile lanes, on other hosts, that make its libraries; empty compiles on this host.
        linker: the command that makes shared libraries for it, with options; empty takes this host's own compiler.
        linker_flags: further arguments behind the objects.
        session_s: the board ends a session of its own accord after so many seconds, and with it a kernel that hangs.
        session_candidates: so many candidates share one session.
        reach_s: how long connecting and sending the inputs may take, beside waiting for the board to end a session.
        build_lanes: how many candidates are compiled at once.
        first_build_s: what compiling may take before anything is known; later limits follow from what builds take.
        first_run_s: what all calls of a kernel may take before anything is known of the task.
        patience_s: a board that is away for longer is given up, and what waits for it fails.
        losses: so many losses in a row put it into quarantine.
        quarantine_s: how long it is left alone then.
        check_every_s: how often its reference kernels are timed.
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
    def _is_one_word(cls, key: SecretStr) -> SecretStr:
        if any(character.isspace() for character in key.get_secret_value()):
            raise ValueError("the key holds a space, which the protocol takes for the beginning of an option")
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
            raise ValueError("the target of a board is of the kind llvm, with at least one of num-cores")
        return target

    @model_validator(mode="after")
    def _stays_close(self) -> "GatewaySettings":
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError as error:
            raise ValueError("host is no IP address: names are not looked up; give 127.0.0.1") from error
        if not address.is_loopback and not self.allow_tunnel_address:
            raise ValueError(
                f"host {self.host} is not loopback. TVM's RPC has no authentication: forward the port through a tunnel "
                "to 127.0.0.1, or set allow_tunnel_address where the address itself is that of a private tunnel"
            )
        if self.session_s <= self.first_run_s + self.run_allowance_s:
            raise ValueError("session_s must be longer than first_run_s and run_allowance_s together")
        return self

    @property
    def cores(self) -> int:
        """How many cores the board has."""
        return int(json.loads(self.target)["num-cores"])

    def linker_command(self) -> tuple[str, ...]:
        """The linker and its options, apart."""
        return tuple(shlex.split(self.linker))

    def farm_settings(self) -> FarmSettings:
        """What a farm on any machine is told."""
        return FarmSettings(
            build_lanes=self.build_lanes,
            first_build_s=self.first_build_s,
            first_run_s=self.first_run_s,
            drift_check_s=self.check_every_s,
        )
