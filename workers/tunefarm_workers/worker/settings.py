"""Settings of a worker."""

import os
import re
from itertools import groupby
from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.broker import DEFAULT_PREFIX, Broker
from tunefarm_schemas.farm.lane import LaneKind
from tunefarm_workers.device.host_name import host_name

_RANGE: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class WorkerSettings(BaseSettings):
    """From the environment, each name with the prefix ``TUNEFARM_``. Secrets are not printed."""

    model_config = SettingsConfigDict(env_prefix="TUNEFARM_", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path.home() / ".tunefarm")
    broker_url: SecretStr | None = None
    """Redis from which this worker gets its work, as redis://, rediss:// or unix://."""
    broker_prefix: str = DEFAULT_PREFIX
    """Prefix of all keys in that Redis."""
    blob_url: SecretStr | None = None
    """The tuner's object store; if unset, a folder under ``home``, for workers on the tuner's host."""
    worker_name: str = ""
    """Name of this lane, unique among the host's running workers; the host's name and the cores if empty."""
    worker_cores: str = ""
    """Logical processors of this lane, such as ``0-3,8``; all that the process may use if empty."""
    worker_kind: LaneKind = "cpu"
    worker_farm: str = ""
    """``module:function`` that creates the lane's farm, instead of the one for ``worker_kind``."""
    worker_room: int | None = Field(default=None, ge=1, le=1024)
    """Maximum candidates held at once; None for as many as keep the device busy."""
    worker_allow_missing_confinement: bool = False
    """Measure even if the kernel cannot confine children fully. The lane's reason then shows what is missing."""
    worker_grace_s: float = Field(default=20.0, ge=0)
    """How long a stopping worker continues its orders before it gives them back."""

    def broker(self) -> Broker:
        """The broker. Raises BadInput if the URL is missing or invalid."""
        if self.broker_url is None:
            raise BadInput(
                "TUNEFARM_BROKER_URL",
                "it is not set, so this worker has no broker to get work from.",
                "Set it to the tuner's: export TUNEFARM_BROKER_URL=redis://host:6379/0",
            )
        return Broker.at(self.broker_url.get_secret_value(), self.broker_prefix)

    def cores(self) -> tuple[int, ...]:
        """The logical processors of this lane, ascending. Raises BadInput."""
        usable = os.sched_getaffinity(0)
        if not self.worker_cores:
            return tuple(sorted(usable))
        wanted = _parse(self.worker_cores)
        if not wanted or not wanted <= usable:
            problem = f"{self.worker_cores!r} names processors that this process may not use."
            raise BadInput("--cores", problem, f"Choose from {_ranges(sorted(usable))}.")
        return tuple(sorted(wanted))

    def name(self) -> str:
        """The lane's name."""
        return self.worker_name or f"{host_name() or 'host'}/{_ranges(self.cores())}"


def _parse(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise BadInput("--cores", f"{text!r} is not a list of processors.", "Write it like 0-3,8.")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def _ranges(cores: "list[int] | tuple[int, ...]") -> str:
    """Ranges, such as ``0-3,8``."""
    parts: list[str] = []
    for _, group in groupby(enumerate(cores), lambda pair: pair[1] - pair[0]):
        run = [core for _, core in group]
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ",".join(parts)
