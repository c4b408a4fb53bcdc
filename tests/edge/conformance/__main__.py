"""Runs TUF's conformance suite against the agent's verification, and against a repository that our commands signed.

``python -m tests.edge.conformance SUITE`` takes a checkout of https://github.com/theupdateframework/tuf-conformance and
needs the program ``faketime``. Arguments after SUITE are pytest's.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.release.repositories import Workshop
from tunefarm.release.export import export
from tunefarm.release.key_ring import KeyRing
from tunefarm.release.rotation import rotate
from tunefarm.release.signing import Signing

ROOT = Path(__file__).parents[3]
SUITE = "tuf_conformance"


def main() -> int:
    """pytest's exit status."""
    parser = argparse.ArgumentParser("tests.edge.conformance", description=__doc__)
    parser.add_argument("suite", type=Path, help="a checkout of tuf-conformance")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of pytest, such as -k rollback")
    options = parser.parse_args()
    if not (options.suite / SUITE / "conftest.py").is_file():
        parser.error(f"{options.suite} is not a checkout of tuf-conformance")
    if shutil.which("faketime") is None:
        parser.error("the suite needs the program faketime")
    with TemporaryDirectory(prefix="tunefarm-conformance-") as name:
        place = Path(name)
        shutil.copytree(options.suite / SUITE, place / SUITE)
        add_our_repository(place / SUITE / "static_data" / "tunefarm", place / "workshop")
        client = place / "client"
        command = f"exec '{sys.executable}' -m tests.edge.conformance.client"
        client.write_text(f"#!/bin/sh\ncd '{ROOT}' && {command} \"$@\"\n")
        client.chmod(0o755)
        words = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", SUITE, "--entrypoint", str(client)]
        environment = {**os.environ, "PYTHONPATH": name, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([*words, *options.arguments], cwd=place, env=environment, check=False).returncode


def add_our_repository(folder: Path, workplace: Path) -> None:
    """A repository with rotated keys and two publications, in the form in which the suite holds those of others."""
    workplace.mkdir()
    workshop = Workshop(workplace).begin("stable")
    workshop.publish("cnn-1", "stable")
    root = workshop.folder.state().root.signed
    for role in ("root", "timestamp", "snapshot"):
        old, new = root.roles[role].keyids[:1], workshop.key(f"{role}-new")
        rotate(Signing(workshop.folder, KeyRing.of(workshop.folder)), role, old, [new])
    workshop.publish("cnn-2", "stable")
    export(workshop.folder, "stable", folder)
    shutil.copy(folder / "metadata" / "1.root.json", folder / "initial_root.json")
    (folder / "targetpath").write_text("channels/stable.json\n")


if __name__ == "__main__":
    sys.exit(main())
