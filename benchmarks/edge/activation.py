"""How long a device takes to activate a release and to return to the one before, offline, by the agent's own path.

``python -m benchmarks.edge.activation --rounds 50`` prints a table.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.report.markdown_table import table
from tunefarm_schemas.edge.device import EdgeAction, EdgeAdvice
from tunefarm_schemas.edge.report import InstallReport
from tunefarm_schemas.frozen import Frozen

HEAD: Final = ("weights", "what", "median ms", "slowest ms", "budget ms")
ACTIVATION_BUDGET_S: Final = 0.05
RETURN_BUDGET_S: Final = 1.0


class Switches(Frozen):
    """Seconds of each switch of one device.

    Attributes:
        activation_s: from the decision to switch to the first inference, as the agent reports it.
        return_s: of a whole return from a folder: signatures, digests of files on disk, self-test, switch, inference.
    """

    weights_bytes: int
    activation_s: tuple[float, ...]
    return_s: tuple[float, ...]

    def rows(self) -> list[tuple[str, ...]]:
        """The rows of the table."""
        size = f"{self.weights_bytes / 1e6:g} MB"
        return [
            (size, "activation", *_cells(self.activation_s, ACTIVATION_BUDGET_S)),
            (size, "return, offline", *_cells(self.return_s, RETURN_BUDGET_S)),
        ]


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="switches in each direction")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[0.01, 1, 20], help="weights of a release")
    given = parser.parse_args()
    rows = []
    for megabytes in given.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            rows += _switched(Path(folder), int(megabytes * 1e6), given.rounds).rows()
    print("\n".join(table(HEAD, rows)))


def _switched(folder: Path, weights_bytes: int, rounds: int) -> Switches:
    from tests.edge.bundles import bundle, library
    from tests.edge.conftest import Device
    from tests.edge.repositories import Repository
    from tunefarm_edge.service.device_config import DeviceConfig, write_config

    repository, config = Repository(folder / "repository"), DeviceConfig(channel="stable", max_reports=10 * rounds + 10)
    device = Device(folder / "device", repository, config)
    write_config(device.root(), config, repository.root.read_bytes(), None)
    held_bytes = 4096 * (weights_bytes // 4096 + 1)
    model = library(weights_bytes=held_bytes)
    old, new = (
        repository.release(name, bundle(factor, model=model, weights=os.urandom(held_bytes)))
        for name, factor in (("scale-2", 2.0), ("scale-3", 3.0))
    )
    repository.publish(1, new, previous=old)
    back_s = []
    for _ in range(rounds):
        device.update(_advice("run_current", "scale-3"))
        began_s = time.monotonic()
        returned = device.update(_advice("run_previous", "scale-2"))
        back_s.append(time.monotonic() - began_s)
        if returned.running != "scale-2":
            raise RuntimeError(f"the device does not return: {returned.refused}")
    bodies = [each.body for each in device.reports()]
    installs = [each for each in bodies if isinstance(each, InstallReport) and each.activation_s is not None]
    activations = tuple(each.activation_s for each in installs if each.activation_s is not None)
    return Switches(weights_bytes=weights_bytes, activation_s=activations, return_s=tuple(back_s[1:] or back_s))


def _advice(action: EdgeAction, release: str) -> EdgeAdvice:
    return EdgeAdvice(channel="stable", action=action, release=release, poll_after_s=60.0)


def _cells(seconds: Sequence[float], budget_s: float) -> tuple[str, ...]:
    return f"{1e3 * median(seconds):.1f}", f"{1e3 * max(seconds):.1f}", f"{1e3 * budget_s:g}"


if __name__ == "__main__":
    main()
