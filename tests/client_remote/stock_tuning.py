"""TVM's tuner with ``FarmBuilder``, ``FarmRunner`` and its default callbacks, which delete the folders of artifacts.

Runs as a program that Landlock confines to one writable folder, so that a fault cannot delete anything else.

    python -m tests.client_remote.stock_tuning FOLDER URL TOKEN_FILE
"""

import json
import os
import sys
import types
from pathlib import Path

from py_landlock import (
    AccessFs,
    PathBeneathAttr,
    RulesetAttr,
    add_rule,
    create_ruleset,
    get_abi_version,
    restrict_self,
)
from py_landlock.abi import get_supported_fs


def may_write_only_below(folder: Path) -> None:
    """Permit reading and executing everywhere, and writing only below ``folder``."""
    changing = get_supported_fs(get_abi_version()) & ~(AccessFs.READ_FILE | AccessFs.READ_DIR | AccessFs.EXECUTE)
    changing &= ~AccessFs.IOCTL_DEV
    ruleset = create_ruleset(RulesetAttr(handled_access_fs=int(changing)))
    for path, access in ((folder, changing), (Path("/dev/null"), AccessFs.WRITE_FILE | AccessFs.TRUNCATE)):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        add_rule(ruleset, PathBeneathAttr(allowed_access=int(access & changing), parent_fd=descriptor))
        os.close(descriptor)
    _give_up_privileges()
    restrict_self(ruleset, None)


def _give_up_privileges() -> None:
    import ctypes

    no_new_privileges = 38
    assert ctypes.CDLL(None).prctl(no_new_privileges, 1, 0, 0, 0) == 0


def main(folder: Path, url: str, token: str) -> None:
    may_write_only_below(folder)
    try:
        (folder.parent / "refused").write_text("")
    except PermissionError:
        pass
    else:
        raise SystemExit("the process is not confined, so stock TVM is not run")
    # These intrinsics take seven seconds to load and are not used on a CPU.
    sys.modules["tvm.s_tir.tensor_intrin.cuda"] = types.ModuleType("tvm.s_tir.tensor_intrin.cuda")
    import tvm
    from tvm import te
    from tvm.s_tir import meta_schedule as ms

    from tunefarm import FarmBuilder, FarmRunner

    a = te.placeholder((32, 32), name="A")
    b = te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    database = ms.tune_tir(
        mod=te.create_prim_func([a, b, c]),
        target=tvm.target.Target({"kind": "llvm", "num-cores": 1}),
        work_dir=str(folder / "work"),
        max_trials_global=4,
        num_trials_per_iter=4,
        builder=FarmBuilder(),
        runner=FarmRunner(url, token),
        strategy="replay-trace",
        cost_model="random",
        num_tuning_cores=1,
    )
    records = database.get_all_tuning_records()
    latencies_s = [float(seconds) for record in records for seconds in record.run_secs]
    print(json.dumps({"latencies_s": latencies_s, "left": sorted(path.name for path in folder.iterdir())}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]).read_text().strip())
