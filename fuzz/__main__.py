"""Fuzz the entry points of untrusted data: python -m fuzz --minutes 60 --seed 0 --output fuzz-output.

Targets share the time, two at once. A finding is a file that ``--replay`` passes to its target again; the exit status
is 1 if there is one. The same seed creates the same cases in the same order.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from fuzz.target import FuzzTarget
from tunefarm.terminal.console import say
from tunefarm_services.telemetry.logs import configure_logs

PROGRESS_EVERY_S: Final = 10.0
MAX_FINDINGS: Final = 50
"""Maximum findings of one target, which then stops: further ones are usually the same."""


def intake() -> FuzzTarget:
    """Modules."""
    from fuzz.confined_targets import IntakeTarget

    return IntakeTarget()


def trace() -> FuzzTarget:
    """Traces and sketches."""
    from fuzz.confined_targets import TraceTarget

    return TraceTarget()


def importing() -> FuzzTarget:
    """TVM's databases."""
    from fuzz.confined_targets import ImportTarget

    return ImportTarget()


def message() -> FuzzTarget:
    """The broker's messages."""
    from fuzz.message_target import MessageTarget

    return MessageTarget()


def http() -> FuzzTarget:
    """A running service."""
    from fuzz.http_target import HttpTarget

    return HttpTarget()


def row() -> FuzzTarget:
    """Rows of a store."""
    from fuzz.row_target import RowTarget

    return RowTarget()


def library() -> FuzzTarget:
    """Bytes of shared libraries."""
    from fuzz.library_target import LibraryTarget

    return LibraryTarget()


TARGETS: Final[Mapping[str, Callable[[], FuzzTarget]]] = {
    "intake": intake,
    "http": http,
    "trace": trace,
    "import": importing,
    "message": message,
    "row": row,
    "library": library,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", action="append", choices=[*TARGETS], help="only these; all by default")
    parser.add_argument("--output", type=Path, default=Path("fuzz-output"), help="folder for findings")
    parser.add_argument("--replay", type=Path, help="a finding to pass to its target again")
    parser.add_argument("--alone", action="store_true", help="run the one target in this process")
    given = parser.parse_args(arguments)
    if given.replay is not None:
        return replay(given.replay)
    names = given.target or [*TARGETS]
    if given.alone:
        return fuzz(names[0], given.seed, given.minutes * 60, given.output)
    share = given.minutes * min(2, len(names)) / len(names)
    words = ("--alone", "--seed", str(given.seed), "--minutes", str(share), "--output", str(given.output))
    with ThreadPoolExecutor(2) as pool:
        lines = [[sys.executable, "-m", "fuzz", *words, "--target", name] for name in names]
        codes = list(pool.map(lambda line: subprocess.run(line, check=False).returncode, lines))
    for name, code in zip(names, codes, strict=True):
        say(f"{name}: {'nothing found' if code == 0 else f'findings in {given.output}' if code == 1 else 'it broke'}")
    return max(codes)


def fuzz(name: str, seed: int, seconds: float, output: Path) -> int:
    """Create and check cases for that long; return 1 if something was found."""
    configure_logs("fuzz", level="critical")
    target = TARGETS[name]()
    began_s = told_s = time.monotonic()
    number = findings = 0
    try:
        while (now_s := time.monotonic()) - began_s < seconds and findings < MAX_FINDINGS:
            case = target.make(random.Random(f"{seed} {name} {number}"))
            found = target.check(case)
            number += 1
            if found is not None:
                findings += 1
                say(f"{name}: {found}; in {_kept(output, name, seed, number, case, found)}")
            if now_s - told_s > PROGRESS_EVERY_S:
                told_s = now_s
                left_s = max(0.0, seconds - (now_s - began_s))
                rate = number / (now_s - began_s)
                say(f"{name}: {number} cases, {rate:.1f}/s, {findings} findings, {left_s:.0f} s left")
    finally:
        target.close()
    say(f"{name}: {number} cases in {time.monotonic() - began_s:.0f} s, {findings} findings")
    return int(findings > 0)


def replay(path: Path) -> int:
    """Pass a finding to its target again; return 1 if it is reproduced."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    target = TARGETS[kept["target"]]()
    try:
        found = target.check(kept["case"])
    finally:
        target.close()
    say(found or "all is well")
    return int(found is not None)


def _kept(output: Path, name: str, seed: int, number: int, case: str, found: str) -> Path:
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{name}-{seed}-{number}.json"
    path.write_text(json.dumps({"target": name, "found": found, "case": case}, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
