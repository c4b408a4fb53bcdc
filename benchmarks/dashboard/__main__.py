"""First paints, interactions, events on the screen, viewers of a job, and Optuna's dashboard beside ours.

    python -m benchmarks.dashboard --trials 1000000 --viewers 500 --output benchmarks/results/dashboard

Run it on an otherwise idle machine with Chromium; a million trials take 6 GB of disk while it runs.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from playwright.sync_api import Page

from benchmarks.dashboard.beside_optuna import beside, optuna_dashboard
from benchmarks.dashboard.chromium import (
    chromium,
    click_to_paint_s,
    first_paint_s,
    frame_times_s,
    opened,
    script_bytes,
    until,
)
from benchmarks.dashboard.figures import Beside, DashboardFigures, Interactions, Paint, ViewerFigures, page_of
from benchmarks.dashboard.large_job import LargeJob, put_large_job, put_running_job
from benchmarks.dashboard.service import ServedStore, served_store
from benchmarks.dashboard.viewers import Writer, watched
from benchmarks.machine import this_machine

BUDGET: Final = 1_000_000
_FILES: Final = 8_192
_EVENT_PAUSE_S: Final = 1.0
_DRAWN: Final = """
window.drawnMs = 0;
new MutationObserver(() => {
  if (!window.drawnMs && document.querySelectorAll(".plot canvas").length) window.drawnMs = performance.now();
}).observe(document, { childList: true, subtree: true });
"""
_SHOWN: Final = """
window.shown = {};
const note = () => {
  const found = /(\\d+) of \\d+/.exec(document.getElementById("status").innerText);
  if (found && !window.shown[found[1]])
    requestAnimationFrame(() => { window.shown[found[1]] = performance.timeOrigin + performance.now(); });
};
new MutationObserver(note).observe(document.getElementById("status"), { childList: true, subtree: true });
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark from the command line."""
    options = _options(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_FILES, most), most))
    with tempfile.TemporaryDirectory(prefix="tunefarm-pages-") as folder:
        figures = _figures(Path(folder), options)
    print(page_of(figures))
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "dashboard.json").write_text(figures.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (options.output / "dashboard.md").write_text(page_of(figures), encoding="utf-8")
    return 0


def _figures(folder: Path, options: argparse.Namespace) -> DashboardFigures:
    home = folder / "home"
    home.mkdir()
    with served_store(home) as served:
        began_s = time.monotonic()
        job = put_large_job(served.store, served.settings, 0, options.trials)
        fill_s = time.monotonic() - began_s
        _say(f"{options.trials:,} trials stored in {fill_s:.0f} s")
        small = put_large_job(served.store, served.settings, 1, options.study_trials)
        running, lease = put_running_job(served.store, served.settings, 2, 1000)
        served.service.start()
        writer = Writer(served, lease, BUDGET)
        _say("first paints and interactions")
        found = _in_browser(served, job, running, writer, options.rounds)
        _say(f"{options.viewers} viewers")
        viewers: ViewerFigures | None = None
        if options.viewers:
            viewers = watched(served, running, writer, options.viewers, options.events)
        _say("Optuna's dashboard")
        rivals = _beside(folder, served, small, options) if options.study_trials > 1 else ()
    return DashboardFigures(
        machine=this_machine("fastapi", "uvicorn"),
        trials=options.trials,
        fill_s=fill_s,
        viewers=viewers,
        beside=rivals,
        **found,
    )


def _in_browser(
    served: ServedStore, job: LargeJob, running: LargeJob, writer: Writer, rounds: int
) -> dict[str, object]:
    job_page = f"/jobs/{job.job_id}"
    trials = f"{job_page}/trials?exploration={job.exploration_id}"
    pages = {"overview": "/", "jobs": "/jobs", "job": job_page, "trials": trials, "failed trials": f"{trials}&failed=1"}
    with chromium() as browser:
        paints = []
        drawn_s: list[float] = []
        for name, path in pages.items():
            seconds = []
            for _ in range(rounds):
                with opened(browser, served.cookie()) as page:
                    page.add_init_script(_DRAWN)
                    seconds.append(first_paint_s(page, served.address(path)))
                    if name == "job":
                        drawn_s.append(_drawn_s(page))
            paints.append(Paint(page=name, seconds=tuple(seconds)))
        with opened(browser, served.cookie()) as page:
            interactions = _interactions(page, served, job_page, trials, rounds)
        with opened(browser, served.cookie()) as page:
            weight = script_bytes(page, served.address(job_page))
        with opened(browser, served.cookie()) as page:
            shown_s = _event_to_screen_s(page, served.address(f"/jobs/{running.job_id}"), writer, rounds)
    return {
        "paints": tuple(paints),
        "chart_drawn_s": tuple(drawn_s),
        "interactions": interactions,
        "script_bytes": weight,
        "event_to_screen_s": shown_s,
    }


def _drawn_s(page: Page) -> float:
    return until(page, lambda: page.evaluate("window.drawnMs")) / 1e3


def _interactions(page: Page, served: ServedStore, job_page: str, trials: str, rounds: int) -> tuple[Interactions, ...]:
    page.goto(served.address(trials))
    paging = [click_to_paint_s(page, "text=Next page") for _ in range(2 * rounds)]
    tabs = []
    for _ in range(rounds):
        tabs += [click_to_paint_s(page, ".filter >> text=failed"), click_to_paint_s(page, ".filter >> text=all")]
    page.goto(served.address(job_page))
    page.wait_for_selector("#by-prediction canvas")
    frame_times_s(page)
    box = page.locator("#by-trial canvas").bounding_box()
    assert box is not None
    for step in range(10 * rounds):
        page.mouse.move(box["x"] + box["width"] * (step % 97) / 97, box["y"] + box["height"] / 2)
    hover = frame_times_s(page)
    for _ in range(2 * rounds):
        page.keyboard.press("Tab")
    keys = frame_times_s(page)
    kinds = {"the next page is painted": paging, "another list is painted": tabs}
    kinds |= {"a chart follows the mouse": hover, "a key moves the focus": keys}
    return tuple(Interactions(kind=kind, seconds=tuple(seconds)) for kind, seconds in kinds.items())


def _event_to_screen_s(page: Page, address: str, writer: Writer, rounds: int) -> tuple[float, ...]:
    page.goto(address)
    page.evaluate(_SHOWN)
    numbers = range(1, rounds + 1)
    for number in numbers:
        writer.write(number)
        time.sleep(_EVENT_PAUSE_S)
    until(page, lambda: page.evaluate(f"window.shown[{rounds}] ?? 0"))
    shown_ms = page.evaluate("window.shown")
    return tuple(
        shown_ms[str(number)] / 1e3 - writer.written_s[number] for number in numbers if str(number) in shown_ms
    )


def _beside(folder: Path, served: ServedStore, job: LargeJob, options: argparse.Namespace) -> tuple[Beside, ...]:
    trials, rounds = options.study_trials, options.rounds
    ours = beside("tunefarm", trials, served.address(f"/jobs/{job.job_id}"), served.cookie(), rounds)
    with optuna_dashboard(folder, trials) as address:
        return ours, beside("Optuna", trials, address, None, rounds)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000_000, help="of the large job")
    parser.add_argument("--study-trials", type=int, default=100_000, help="beside Optuna; 0 leaves it out")
    parser.add_argument("--viewers", type=int, default=500, help="0 leaves them out")
    parser.add_argument("--events", type=int, default=30, help="events, one in two seconds, that the viewers get")
    parser.add_argument("--rounds", type=int, default=10, help="repetitions of each measurement in the browser")
    parser.add_argument("--output", type=Path, default=None, help="folder for dashboard.json and dashboard.md")
    return parser.parse_args(arguments)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
