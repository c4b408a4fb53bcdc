"""Raw results on disk, one file per run, so that a stopped comparison can be resumed."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.comparison.pairing import Pairing
from benchmarks.machine import Machine
from tunefarm_schemas.frozen import Frozen

Noun = TypeVar("Noun", bound=Frozen)


class OtherMachine(RuntimeError):
    """The folder holds results of another machine or of other package versions."""


class RawResults:
    """A folder of raw results from one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        """Open or create ``folder``.

        Raises:
            OtherMachine: its results cannot be compared with those of ``machine``.
        """
        self.folder = folder
        kept = self.once("machine", Machine, lambda: machine)
        if kept != machine:
            raise OtherMachine(f"{folder} holds results of {kept}; this is {machine}. Choose another --output.")

    def once(self, name: str, noun: type[Noun], make: Callable[[], Noun]) -> Noun:
        """Return the value stored as ``name``; if there is none, store and return the result of ``make``."""
        path = self.folder / f"{name}.json"
        if path.exists():
            return noun.model_validate_json(path.read_text(encoding="utf-8"))
        value = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_text(value.model_dump_json(indent=1) + "\n", encoding="utf-8")
        half.replace(path)
        return value

    def pairings(self, workloads: list[str], seeds: list[int], trials: int, cores: int) -> list[Pairing]:
        """The finished pairings among the given ones, in the given order."""
        paths = [self.folder / f"{pairing_name(w, seed, trials, cores)}.json" for w in workloads for seed in seeds]
        return [Pairing.model_validate_json(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def pairing_name(workload: str, seed: int, trials: int, cores: int) -> str:
    """The name of the results of one (workload, seed)."""
    return f"raw/{workload}-{trials}-trials-{cores}-cores-seed-{seed}/pairing"
