"""Latencies of another tenant and of health checks during attacks on the API.

    python -m benchmarks.load.under_attack --seconds 20

starts ``tunefarm serve --no-tuner`` on loopback, and for each attack shows how long ``/healthz`` and another tenant's
requests took, each on a connection of its own, beside what they took with nobody else there. Attackers run on this
machine as well, behind everything else, as if they had a processor of their own.
"""

import argparse
import http.client
import itertools
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.load.filling import small_module_json
from benchmarks.service.service_process import ServiceProcess
from tunefarm_schemas.token import Scope
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store

PAUSE_S: Final = 0.05
"""Between two requests of the one who is watched."""
_TARGET: Final = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 2}
_STAGES: Final = 1500
_ATTACKERS: Final = 4
_IDLE: Final = 2500
_GET: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


class Attacked(NamedTuple):
    """Where the service is, what the attacker may present there, and a module that takes long to read."""

    port: int
    secret: str
    slow_module: str


def heads_without_end(attacked: Attacked) -> None:
    """Header fields for as long as the service reads them."""
    for piece in itertools.cycle((b"X-Long: " + b"a" * 65536, b"X: y\r\n" * 8192, b"a" * 65536)):
        with suppress(OSError), _connected(attacked.port) as connection:
            connection.sendall(_GET)
            while True:
                connection.sendall(piece)


def slow_modules(attacked: Attacked) -> None:
    """Five requests at a time for each attacker, whose module takes the intake seconds."""
    body = json.dumps({"module": attacked.slow_module, "target": _TARGET})
    _by_threads(5, lambda: _problem_of(attacked.port, attacked.secret, "POST", "/v1/jobs", body))


def deep_bodies(attacked: Attacked) -> None:
    """Bodies of nested and of long JSON."""
    texts = ("[" * 4_000_000, '{"module":[' + "0," * 4_000_000 + "0]}", '{"a":' * 1_000_000)
    for text in itertools.cycle(texts):
        _problem_of(attacked.port, attacked.secret, "POST", "/v1/jobs", text)


def idle_connections(attacked: Attacked) -> None:
    """Idle connections, kept open and reopened."""
    with ExitStack() as kept:
        while True:
            for _ in range(_IDLE // _ATTACKERS):
                with suppress(OSError):
                    kept.enter_context(_connected(attacked.port))
            time.sleep(1.0)
            kept.pop_all().close()


ATTACKS: Final[dict[str, Callable[[Attacked], None]]] = {
    "heads without end": heads_without_end,
    "slow modules": slow_modules,
    "deep and long bodies": deep_bodies,
    "idle connections": idle_connections,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure without load, then under each attack. Returns 0 if every request was answered."""
    options = _options(arguments)
    slow_module = slow_module_json()
    with tempfile.TemporaryDirectory(prefix="tunefarm-attack-") as folder:
        service = ServiceProcess(Path(folder), ["--no-tuner"])
        secrets = _tokens(Path(folder))
        service.start()
        try:
            attacked = Attacked(int(service.url.rpartition(":")[2]), secrets["mallory"], slow_module)
            print(f"{'':24}{'':16}{'requests':>9}{'failed':>8}{'p50 ms':>8}{'p99 ms':>8}{'longest':>9}")
            failed = _watched("nobody else", attacked.port, secrets["alice"], options.seconds)
            for name in options.attacks:
                with _attack(name, attacked):
                    time.sleep(2.0)
                    failed += _watched(name, attacked.port, secrets["alice"], options.seconds)
                time.sleep(3.0)
        finally:
            service.stop()
    return 0 if failed == 0 else 1


@contextmanager
def _attack(name: str, attacked: Attacked) -> Iterator[None]:
    attackers = [
        multiprocessing.Process(target=_attack_behind_others, args=(name, attacked), daemon=True)
        for _ in range(_ATTACKERS)
    ]
    for attacker in attackers:
        attacker.start()
    try:
        yield
    finally:
        for attacker in attackers:
            attacker.kill()
            attacker.join()


def _attack_behind_others(name: str, attacked: Attacked) -> None:
    os.nice(19)
    ATTACKS[name](attacked)


def slow_module_json() -> str:
    """A function of so many stages that reading it takes long."""
    import tvm
    from tvm import te

    stages = [te.placeholder((64,), name="A")]
    for number in range(_STAGES):
        stages.append(te.compute((64,), lambda i: stages[-1][i] + 1.0, name=f"B{number}"))
    return str(tvm.ir.save_json(tvm.IRModule({"main": te.create_prim_func([stages[0], stages[-1]])})))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each attack is watched")
    parser.add_argument("--attacks", nargs="*", choices=sorted(ATTACKS), default=list(ATTACKS), help="which of them")
    return parser.parse_args(arguments)


def _tokens(home: Path) -> dict[str, str]:
    settings = Settings(home=home)
    store = Store.open(settings.database(), settings.blobs())
    try:
        return {tenant: store.tokens.create(tenant, "token", tuple(Scope))[1] for tenant in ("alice", "mallory")}
    finally:
        store.close()


def _watched(name: str, port: int, secret: str, seconds: float) -> int:
    """Ask in turn for so long, print what came of it, and return how many requests failed."""
    job = {"module": small_module_json(), "target": _TARGET, "effort": {"trials": 1}}
    asked = {
        "/healthz": ("GET", "/healthz", None),
        "list jobs": ("GET", "/v1/jobs", None),
        "read a target": ("POST", "/v1/targets:validate", json.dumps({"target": _TARGET})),
        "submit a job": ("POST", "/v1/jobs", json.dumps(job)),
    }
    took_s: dict[str, list[float]] = {route: [] for route in asked}
    failed = dict.fromkeys(asked, 0)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for route, request in asked.items():
            began_s = time.monotonic()
            problem = _problem_of(port, secret, *request)
            took_s[route].append(time.monotonic() - began_s)
            if problem:
                failed[route] += 1
                print(f"{name}: {route}: {problem}", file=sys.stderr)
            time.sleep(PAUSE_S)
    for route, times_s in took_s.items():
        quantiles = statistics.quantiles(times_s, n=100, method="inclusive")
        figures = f"{quantiles[49] * 1e3:8.1f}{quantiles[98] * 1e3:8.1f}{max(times_s) * 1e3:9.1f}"
        print(f"{name:24}{route:16}{len(times_s):9}{failed[route]:8}{figures}", flush=True)
    return sum(failed.values())


def _problem_of(port: int, secret: str, method: str, path: str, body: str | None) -> str:
    """Ask on a connection of its own; what was wrong with the answer, if anything."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
    try:
        connection.request(method, path, body, _headers(secret))
        answer = connection.getresponse()
        said = answer.read()
        return "" if answer.status < 300 else f"{answer.status} {said[:300]!r}"
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30.0)


def _headers(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}


def _by_threads(amount: int, attack: Callable[[], object]) -> None:
    def forever() -> None:
        while True:
            attack()

    threads = [threading.Thread(target=forever, daemon=True) for _ in range(amount)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
