// Draws the charts of a job, and keeps them up to date while the job runs.
"use strict";

// The browser reconnects by itself, so a lost connection is no error: htmx need not log it.
class Stream extends EventSource {
  set onerror(handle) {
    super.onerror = (event) => this.readyState === EventSource.CLOSED && handle(event);
  }
}
if (globalThis.htmx) htmx.createEventSource = (address) => new Stream(address);

(() => {
  const REFRESH_MS = 3000;
  const EMPTY = "Nothing was measured yet.";
  const { color } = charts;
  let drawings = null;
  let chart = null;
  let isWaiting = false;

  // A step for each improvement, and the levels of what was there before.
  function staircase(draw, id, label, xs, best) {
    const levels = [
      ["untuned", chart.untuned_s, "--level"],
      ["without a trial", chart.untried_s, "--wait"],
      [chart.library, chart.library_s, "--good"],
    ].filter(([, seconds]) => seconds);
    const lines = [
      charts.stairs("best", color("--series"), xs.length),
      ...levels.map(([name, , stroke]) => charts.series(name, color(stroke), { dash: [6, 4], points: { show: false } })),
    ];
    draw(id, label, lines, [xs, best, ...levels.map(([, seconds]) => new Array(xs.length).fill(seconds))], EMPTY);
  }

  // Stopped trials, which took at least so long, are hollow.
  function scatter(draw) {
    const points = [...chart.sample.map((point) => [...point, false]), ...chart.stopped.map((point) => [...point, true])]
      .filter((point) => point[2] !== null).sort((a, b) => a[2] - b[2]);
    const dots = (label, fill) => charts.series(label, color("--series"), {
      paths: () => null, points: { show: true, size: 5, width: 1, fill },
    });
    const lines = [dots("measured", color("--series")), dots("stopped, at least", color("--paper"))];
    const latencies = (isStopped) => points.map((point) => point[3] === isStopped ? point[1] : null);
    const data = [points.map((point) => point[2]), latencies(false), latencies(true)];
    draw("by-prediction", "predicted score", lines, data, EMPTY);
  }

  const redraw = charts.canvas(260, (draw) => {
    if (!chart) return;
    const numbers = chart.best.map((point) => point[0]);
    const best = chart.best.map((point) => point[1]);
    if (numbers.length) {
      numbers.push(Math.max(chart.end - 1, numbers[numbers.length - 1]));
      best.push(best[best.length - 1]);
    }
    staircase(draw, "by-trial", "trial", numbers, best);
    staircase(draw, "by-time", "seconds", chart.times.map((point) => point[0]), chart.times.map((point) => point[1]));
    scatter(draw);
  });

  async function refresh() {
    isWaiting = false;
    const found = drawings && await charts.read(drawings.dataset.chart);
    if (!found) return; // the next message refreshes
    chart = found;
    redraw();
  }

  // All messages of a few seconds cause one refresh.
  document.body.addEventListener("htmx:sseMessage", () => {
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(refresh, REFRESH_MS);
  });
  // Charts come into a page when the search begins, and again with the results.
  function find() {
    const found = document.getElementById("drawings");
    if (found === drawings) return;
    drawings = found;
    refresh();
  }
  document.body.addEventListener("htmx:afterSwap", find);
  find();
})();
