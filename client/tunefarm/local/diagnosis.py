"""The checks of ``tunefarm doctor``. Each is a function that returns one finding."""

import importlib.metadata
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.host_cores import usable_physical_cores, usable_processors
from tunefarm_schemas.views.quantities import bytes_text

TVM_PIN: Final = "0.27.0.post1"
FFI_THAT_WORK: Final = ("0.1.14", "0.1.14.post0", "0.1.14.post1")
ENOUGH_MEMORY_BYTES: Final = 2 << 30
STEADY_GOVERNORS: Final = frozenset({"performance", "unknown"})


class Finding(Frozen):
    """The result of a check. ``wrong`` prevents tuning, ``note`` impairs it."""

    level: Literal["fine", "note", "wrong"]
    subject: str
    text: str
    fix: str = ""


def diagnose() -> list[Finding]:
    """Run all checks."""
    looks: Sequence[Callable[[], Finding]] = (
        look_at_python,
        look_at_tvm_versions,
        look_at_tvm,
        look_at_processor,
        look_at_confinement,
        look_at_governor,
        look_at_memory,
        look_at_compiler,
        look_at_settings,
        look_at_permissions,
        look_at_store,
    )
    return [look() for look in looks]


def look_at_python() -> Finding:
    """Check the interpreter and the operating system."""
    text = f"{platform.python_version()} on {platform.system()} {platform.release()} {platform.machine()}"
    if not sys.platform.startswith("linux"):
        return Finding(level="wrong", subject="system", text=text, fix="Measuring requires Linux.")
    return Finding(level="fine", subject="system", text=text)


def look_at_tvm_versions() -> Finding:
    """Check that the installed versions of TVM and its FFI work together."""
    tvm, ffi = _version_of("apache-tvm"), _version_of("apache-tvm-ffi")
    text = f"apache-tvm {tvm or 'is missing'}, apache-tvm-ffi {ffi or 'is missing'}"
    fix = f"Run: pip install apache-tvm=={TVM_PIN} apache-tvm-ffi=={FFI_THAT_WORK[-1]}"
    if tvm == TVM_PIN and ffi in FFI_THAT_WORK:
        return Finding(level="fine", subject="TVM versions", text=text)
    if tvm == TVM_PIN:
        text += f"; this FFI crashes with this TVM, {' and '.join(FFI_THAT_WORK)} work"
    return Finding(level="wrong", subject="TVM versions", text=text, fix=fix)


def look_at_tvm() -> Finding:
    """Check that TVM loads, in a child, because it may crash."""
    from tunefarm.confined.call import call
    from tunefarm.confined.tvm_facts import ENTRY, NoQuestion, TvmFacts
    from tunefarm.startup.fork_servers import start_fork_server

    fix = "Run: python -c 'import tvm' to see why; it is usually the versions above."
    try:
        fork_server = start_fork_server()
        try:
            facts = call(fork_server, ENTRY, NoQuestion(), TvmFacts, field="TVM")
        finally:
            fork_server.close()
    except BadInput as error:
        return Finding(level="wrong", subject="TVM", text=error.problem, fix=fix)
    except OSError as error:
        return Finding(level="wrong", subject="TVM", text=f"cannot start a process: {error}", fix=fix)
    return Finding(level="fine", subject="TVM", text=f"loads; LLVM {facts.llvm_version} detects {facts.host_cpu}")


def look_at_processor() -> Finding:
    """Report the processor's name and its usable cores."""
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    logical = usable_processors()
    cores = usable_physical_cores()
    text = f"{names[0] if names else platform.machine()}, {cores} usable cores, {logical} logical"
    if cores == 1:
        fix = "With more cores, builds run in parallel."
        return Finding(level="note", subject="processor", text=text, fix=fix)
    return Finding(level="fine", subject="processor", text=text)


def look_at_confinement() -> Finding:
    """Check the kernel's features for confining candidates."""
    from tunefarm_sandbox.confinement.abilities import abilities
    from tunefarm_sandbox.confinement.own_cgroup import can_have_own_cgroup

    able = abilities()
    limits = {
        "own cgroup": can_have_own_cgroup(),
        "RLIMIT_NPROC": able.limits_threads_of_user,
        "seccomp": able.seccomp,
    }
    text = (
        f"Landlock {able.landlock_abi or 'is missing'}, seccomp {'works' if able.seccomp else 'is missing'}, "
        f"processes limited by {', '.join(name for name, holds in limits.items() if holds) or 'nothing'}"
    )
    missing = able.missing()
    ports = [each for each in able.missing(connects=True) if each not in missing]
    of_gateways = [f"A gateway, whose children connect to its boards, cannot run here. {each}" for each in ports]
    remarks = (*missing, *able.open_attacks(), *of_gateways)
    if remarks:
        return Finding(level="note", subject="confinement", text=text, fix=" ".join(remarks))
    return Finding(level="fine", subject="confinement", text=text)


def look_at_governor() -> Finding:
    """Check that the clock frequency is fixed."""
    governor = next(iter(_lines("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")), "unknown").strip()
    if governor in STEADY_GOVERNORS:
        return Finding(level="fine", subject="frequency governor", text=governor)
    fix = "Timings are steadier with: cpupower frequency-set -g performance"
    return Finding(level="note", subject="frequency governor", text=governor, fix=fix)


def look_at_memory() -> Finding:
    """Check the memory that is available to children."""
    amounts = {name: rest for name, _, rest in (line.partition(":") for line in _lines("/proc/meminfo"))}
    available_bytes = int(amounts.get("MemAvailable", "0 kB").split()[0]) << 10
    text = f"{bytes_text(available_bytes)} available"
    if available_bytes < ENOUGH_MEMORY_BYTES:
        fix = f"Tuning needs {bytes_text(ENOUGH_MEMORY_BYTES)}; close other programs."
        return Finding(level="note", subject="memory", text=text, fix=fix)
    return Finding(level="fine", subject="memory", text=text)


def look_at_compiler() -> Finding:
    """Check for the linker of artifacts."""
    import shutil

    found = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if found is None:
        fix = "Install gcc or clang, which links artifacts."
        return Finding(level="wrong", subject="compiler", text="neither cc, gcc nor clang is on PATH", fix=fix)
    return Finding(level="fine", subject="compiler", text=found)


def look_at_settings() -> Finding:
    """Report the settings from the environment, with secrets hidden."""
    from pydantic import ValidationError

    from tunefarm_services.settings import Settings

    try:
        settings = Settings()
    except ValidationError as error:
        text = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return Finding(level="wrong", subject="settings", text=text, fix="Correct the TUNEFARM_ variables.")
    return Finding(level="fine", subject="settings", text=str(settings))


def look_at_permissions() -> Finding:
    """Check that other users cannot read the store. Runs before the store is opened, which corrects permissions."""
    from pydantic import ValidationError

    from tunefarm_sandbox.channel.private_files import is_open_to_others
    from tunefarm_services.settings import Settings

    try:
        home = Settings().home.expanduser().absolute()
    except ValidationError:
        return Finding(level="note", subject="permissions", text="not checked: the settings are wrong")
    names = ("", "blobs", "scratch", "devices", "lanes", "tunefarm.db", "tunefarm.db-wal", "tunefarm.db-shm", "token")
    found = [str(home / name) for name in names if is_open_to_others(home / name)]
    if found:
        text = f"other users have permissions on {', '.join(found)}"
        fix = f"Your own files are corrected when the store is opened; otherwise run: chmod -R go= {home}"
        return Finding(level="note", subject="permissions", text=text, fix=fix)
    return Finding(level="fine", subject="permissions", text=f"only you can read {home}")


def look_at_store() -> Finding:
    """Check that the store opens."""
    from tunefarm.local.machine import LocalMachine
    from tunefarm_services.store import StoreError

    try:
        with LocalMachine() as machine:
            revision = machine.store.revision()
    except StoreError as error:
        return Finding(level="wrong", subject="store", text=str(error))
    except (BadInput, OSError) as error:
        return Finding(level="wrong", subject="store", text=str(error), fix="Choose another TUNEFARM_HOME.")
    return Finding(level="fine", subject="store", text=f"opens, at revision {revision}")


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
