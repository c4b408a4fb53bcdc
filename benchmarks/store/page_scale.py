"""How long the pages of a job with a million trials take on the server.

    python -m benchmarks.store.page_scale --database sqlite:////tmp/pages.db --trials 1000000

fills the database, which must be new or filled by this command, and then computes what each page shows several times,
one after the other, without rendering and without a network.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.report.markdown_table import table
from benchmarks.store.large_exploration import put_large_exploration
from benchmarks.store.synthetic_records import TENANT
from tunefarm_schemas.failure import FailureReason
from tunefarm_services.dashboard.job.chart import chart_of
from tunefarm_services.dashboard.job.job_state import read_state
from tunefarm_services.dashboard.job.timeline import timeline_of
from tunefarm_services.space.space_view import space_view
from tunefarm_services.store import Store

REPEATS: Final = 7
TRIALS_ON_PAGE: Final = 51


def main(arguments: Sequence[str] | None = None) -> int:
    """Fill, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True, help="sqlite:////path/file.db or postgresql://...")
    parser.add_argument("--trials", type=int, default=1_000_000, help="number of trials of the exploration")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tunefarm-pages-") as blobs:
        store = Store.open(options.database, Path(blobs), busy_timeout_s=60.0)
        try:
            work = _work_of_pages(store, _job_id(store, options.database, options.trials), options.trials)
            rows = [[name, *(f"{each_s * 1e3:.0f}" for each_s in _times_s(run))] for name, run in work.items()]
        finally:
            store.close()
    lines = table(["page", "first ms", "median ms", "longest ms"], rows)
    print("\n".join(lines))
    return 0


def _job_id(store: Store, url: str, trials: int) -> str:
    """The job in the store, which is filled if it is empty."""
    if found := store.jobs.page(TENANT, limit=1):
        return found[0].job_id

    def show(done: int) -> None:
        print(f"\r{done:,} of {trials:,} trials   ", end="", file=sys.stderr, flush=True)

    return put_large_exploration(url, store, trials, show)[0]


def _work_of_pages(store: Store, job_id: str, trials: int) -> Mapping[str, Callable[[], object]]:
    (exploration,) = store.explorations.of_job(TENANT, job_id)
    of_exploration = (TENANT, exploration.exploration_id)
    state = read_state(store.jobs, store.events, TENANT, job_id)
    return {
        "charts of the job": lambda: chart_of(store.points, TENANT, exploration, state, ()),
        "trials, from the middle": lambda: store.trials.page(*of_exploration, trials // 2, TRIALS_ON_PAGE),
        "failed trials": lambda: store.trials.page(*of_exploration, None, TRIALS_ON_PAGE, failed_only=True),
        "trials of one reason": lambda: store.trials.page(
            *of_exploration, None, TRIALS_ON_PAGE, reason=FailureReason.RUN_TIMEOUT
        ),
        "fastest trials of a record": lambda: store.points.fastest(*of_exploration, 20),
        "space": lambda: space_view(store.samples, *of_exploration),
        "timeline": lambda: timeline_of(store.points, TENANT, exploration),
    }


def _times_s(run: Callable[[], object]) -> tuple[float, float, float]:
    """The first time, the median and the longest of the later ones."""
    times_s: list[float] = []
    for _ in range(REPEATS + 1):
        started_s = time.perf_counter()
        run()
        times_s.append(time.perf_counter() - started_s)
    return times_s[0], statistics.median(times_s[1:]), max(times_s[1:])


if __name__ == "__main__":
    sys.exit(main())
