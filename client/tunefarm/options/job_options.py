"""The options of a tuning job, shared by the command line and the Python API."""

import os
import tempfile
from pathlib import Path
from typing import Final

from pydantic import Field

from tunefarm.terminal.user_files import require_named
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.device import HOT_CACHE, PROTOCOLS
from tunefarm_schemas.tuning.job import Effort, Strategy
from tunefarm_schemas.tuning.workload import Abi

MAX_TRIALS: Final = 1_000_000_000
SEEDS: Final = 2**31
LONGEST_NAME_BYTES: Final = 255


class JobOptions(Frozen):
    """All options of a job except its module, target and space."""

    trials: int = 512
    seconds: float | None = None
    plateau_trials: int | None = None
    target_latency_us: float | None = None
    strategy: Strategy = "evolutionary"
    seed: int = 0
    fresh: bool = False
    abi: Abi = "stable"
    protocol: str = HOT_CACHE.protocol_id
    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def protocol_id(self) -> str:
        """The id of the protocol. Raises ``BadInput``."""
        return require_protocol(self.protocol)

    def require_usable(self) -> None:
        """Raise ``BadInput`` if an option is out of range."""
        self.effort()
        require_protocol(self.protocol)
        if not 0 <= self.seed < SEEDS:
            raise BadInput("seed", f"{self.seed} is not a valid seed.", f"Give a whole number from 0 to {SEEDS - 1}.")

    def effort(self) -> Effort:
        """The limits of the job.

        Raises:
            BadInput: a limit is not positive.
        """
        for field, value in (
            ("trials", self.trials),
            ("seconds", self.seconds),
            ("plateau_trials", self.plateau_trials),
            ("target_latency_us", self.target_latency_us),
        ):
            if value is not None and not value > 0:
                raise BadInput(field, f"{value:g} is not a positive number.", "Give at least 1, or omit it.")
        if self.trials > MAX_TRIALS:
            raise BadInput("trials", f"{self.trials} exceeds the limit of a job.", f"Give at most {MAX_TRIALS}.")
        return Effort(
            trials=self.trials,
            seconds=self.seconds,
            plateau_trials=self.plateau_trials,
            target_latency_s=None if self.target_latency_us is None else self.target_latency_us * 1e-6,
        )


def require_protocol(text: str) -> str:
    """The id of a protocol. A name without a version means its latest version.

    Raises:
        BadInput: there is no such protocol.
    """
    named = [known for known in PROTOCOLS.values() if text in (known.protocol_id, known.name)]
    if not named:
        fix = f"Use one of: {', '.join(PROTOCOLS)}."
        raise BadInput("protocol", f"there is no protocol {text[:80]!r}.", fix)
    return max(named, key=lambda known: known.version).protocol_id


def output_folder(text: str, *, field: str = "output") -> Path:
    """Validate the folder for results without creating it, so that a rejected command leaves nothing behind.

    Raises:
        BadInput: the folder has no name, or cannot be created or written.
    """
    require_named(field, text, "folder")
    try:
        folder = Path(text).expanduser().resolve()
        os.fsencode(folder)
        existing = folder
        while not existing.exists():
            _require_name(existing)
            existing = existing.parent
        with tempfile.TemporaryFile(dir=existing):
            return folder
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(field, f"{text[:300]!r} cannot be written ({reason}).", "Give another folder.") from error


def _require_name(folder: Path) -> None:
    if "\0" in folder.name or len(os.fsencode(folder.name)) > LONGEST_NAME_BYTES:
        raise ValueError("a part of the path is not a valid folder name")
