"""Latencies of another tenant and of health checks during attacks on the API.

    python -m benchmarks.load.under_attack --seconds 20

starts ``tunefarm serve --no-tuner`` on loopback and prints, without an attack and during each, the latencies of
``/healthz`` and of another tenant's requests, each on a new connection. The attackers run on this machine at the lowest
priority, as if on a separate processor.
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
"""Between two measured requests."""
_TARGET: Final = {"kind": "llvm", "mcpu": "x86-64", "num-cores": 2}
_STAGES: Final = 1500
_ATTACKERS: Final = 4
_IDLE: Final = 2500
_GET: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


class Attacked(NamedTuple):
    """The service's port, the attacker's secret, and a module that is slow to read."""

    port: int
    secret: str
    slow_module: str


def endless_headers(attacked: Attacked) -> None:
    """Send header fields for as long as the service reads them."""
    for piece in itertools.cycle((b"X-Long: " + b"a" * 65536, b"X: y\r\n" * 8192, b"a" * 65536)):
        with suppress(OSError), _connected(attacked.port) as connection:
            connection.sendall(_GET)
            while True:
                connection.sendall(piece)


def slow_modules(attacked: Attacked) -> None:
    """Submit modules that are slow to read, with five concurrent requests for each attacker."""
    body = json.dumps({"module": attacked.slow_module, "target": _TARGET})
    _run_in_threads(5, lambda: _problem_of(attacked.port, attacked.secret, "POST", "/v1/jobs", body))


def deep_bodies(attacked: Attacked) -> None:
    """Send deeply nested and long JSON bodies."""
    texts = ("[" * 4_000_000, '{"module":[' + "0," * 4_000_000 + "0]}", '{"a":' * 1_000_000)
    for text in itertools.cycle(texts):
        _problem_of(attacked.port, attacked.secret, "POST", "/v1/jobs", text)


def idle_connections(attacked: Attacked) -> None:
    """Open idle connections, and replace them every second."""
    with ExitStack() as kept:
        while True:
            for _ in range(_IDLE // _ATTACKERS):
                with suppress(OSError):
                    kept.enter_context(_connected(attacked.port))
            time.sleep(1.0)
            kept.pop_all().close()


ATTACKS: Final[dict[str, Callable[[Attacked], None]]] = {
    "endless headers": endless_headers,
    "slow modules": slow_modules,
    "deep and long bodies": deep_bodies,
    "idle connections": idle_connections,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure without an attack, then during each. Returns 0 if every request succeeded."""
    options = _options(arguments)
    slow_module = slow_module_json()
    with tempfile.TemporaryDirectory(prefix="tunefarm-attack-") as folder:
        service = ServiceProcess(Path(folder), ["--no-tuner"])
        secrets = _tokens(Path(folder))
        service.start()
        try:
            attacked = Attacked(int(service.url.rpartition(":")[2]), secrets["mallory"], slow_module)
            print(f"{'':24}{'':16}{'requests':>9}{'failed':>8}{'p50 ms':>8}{'p99 ms':>8}{'longest':>9}")
            failed = _measure("no attack", attacked.port, secrets["alice"], options.seconds)
            for name in options.attacks:
                with _attack(name, attacked):
                    time.sleep(2.0)
                    failed += _measure(name, attacked.port, secrets["alice"], options.seconds)
                time.sleep(3.0)
        finally:
            service.stop()
    return 0 if failed == 0 else 1


@contextmanager
def _attack(name: str, attacked: Attacked) -> Iterator[None]:
    attackers = [
        multiprocessing.Process(target=_attack_at_low_priority, args=(name, attacked), daemon=True)
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


def _attack_at_low_priority(name: str, attacked: Attacked) -> None:
    # Linux weighs sessions against one another first, and nice values within each.
    os.setsid()
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")
    os.nice(19)
    ATTACKS[name](attacked)


def slow_module_json() -> str:
    """A function with so many stages that it is slow to read."""
    import tvm
    from tvm import te

    stages = [te.placeholder((64,), name="A")]
    for number in range(_STAGES):
        stages.append(te.compute((64,), lambda i: stages[-1][i] + 1.0, name=f"B{number}"))
    return str(tvm.ir.save_json(tvm.IRModule({"main": te.create_prim_func([stages[0], stages[-1]])})))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="duration of each measurement")
    parser.add_argument("--attacks", nargs="*", choices=sorted(ATTACKS), default=list(ATTACKS), help="attacks to run")
    return parser.parse_args(arguments)


def _tokens(home: Path) -> dict[str, str]:
    settings = Settings(home=home)
    store = Store.open(settings.database(), settings.blobs())
    try:
        return {tenant: store.tokens.create(tenant, "token", tuple(Scope))[1] for tenant in ("alice", "mallory")}
    finally:
        store.close()


def _measure(name: str, port: int, secret: str, seconds: float) -> int:
    """Send requests for ``seconds``, print their latencies, and return how many failed."""
    job = {"module": small_module_json(), "target": _TARGET, "effort": {"trials": 1}}
    requests = {
        "/healthz": ("GET", "/healthz", None),
        "list jobs": ("GET", "/v1/jobs", None),
        "parse a target": ("POST", "/v1/targets:validate", json.dumps({"target": _TARGET})),
        "submit a job": ("POST", "/v1/jobs", json.dumps(job)),
    }
    latencies_s: dict[str, list[float]] = {route: [] for route in requests}
    failed = dict.fromkeys(requests, 0)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for route, request in requests.items():
            began_s = time.monotonic()
            problem = _problem_of(port, secret, *request)
            latencies_s[route].append(time.monotonic() - began_s)
            if problem:
                failed[route] += 1
                print(f"{name}: {route}: {problem}", file=sys.stderr)
            time.sleep(PAUSE_S)
    for route, times_s in latencies_s.items():
        quantiles = statistics.quantiles(times_s, n=100, method="inclusive")
        figures = f"{quantiles[49] * 1e3:8.1f}{quantiles[98] * 1e3:8.1f}{max(times_s) * 1e3:9.1f}"
        print(f"{name:24}{route:16}{len(times_s):9}{failed[route]:8}{figures}", flush=True)
    return sum(failed.values())


def _problem_of(port: int, secret: str, method: str, path: str, body: str | None) -> str:
    """Send a request on a new connection; return the error, or an empty string."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
    try:
        connection.request(method, path, body, _headers(secret))
        response = connection.getresponse()
        content = response.read()
        return "" if response.status < 300 else f"{response.status} {content[:300]!r}"
    except (OSError, http.client.HTTPException) as error:
        return repr(error)
    finally:
        connection.close()


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30.0)


def _headers(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}


def _run_in_threads(amount: int, attack: Callable[[], object]) -> None:
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
