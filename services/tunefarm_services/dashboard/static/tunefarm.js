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
  const HEIGHT = 260;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  let drawings = null;
  let chart = null;
  let plots = [];
  let isWaiting = false;

  const UNITS = [[1e-6, 1e9, "ns"], [1e-3, 1e6, "us"], [1, 1e3, "ms"]];
  function latency(seconds) {
    if (seconds === null || seconds === undefined) return "-";
    for (const [limit, factor, unit] of UNITS)
      if (seconds < limit) return `${Number((seconds * factor).toPrecision(4))} ${unit}`;
    return `${Number(seconds.toPrecision(4))} s`;
  }

  const axis = (label, extra) => ({
    label, stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 },
    ticks: { stroke: color("--line"), width: 1 }, ...extra,
  });
  // Of a logarithmic axis the decades are enough, if there are several.
  function decades(_plot, splits) {
    const kept = splits.map((value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9 ? value : null);
    return kept.filter((value) => value !== null).length > 1 ? kept : splits;
  }
  const latencyAxis = () => axis("", {
    size: 72, values: (_plot, ticks) => ticks.map(latency),
    grid: { stroke: color("--line"), width: 1, filter: decades }, ticks: { stroke: color("--line"), width: 1, filter: decades },
  });

  function level(name, seconds, count, stroke) {
    if (!seconds) return [];
    return [{ name, stroke, values: new Array(count).fill(seconds) }];
  }

  // A step for each improvement, and the levels of what was there before.
  function staircase(id, label, xs, best, levels) {
    const series = [{ label }, {
      label: "best", stroke: color("--series"), width: 2, value: (_plot, value) => latency(value),
      paths: uPlot.paths.stepped({ align: 1 }), points: { show: xs.length < 60 },
    }];
    const data = [xs, best];
    for (const each of levels) {
      series.push({ label: each.name, stroke: each.stroke, dash: [6, 4], value: (_plot, value) => latency(value), points: { show: false } });
      data.push(each.values);
    }
    draw(id, { series, scales: { x: { time: false }, y: { distr: 3 } }, axes: [axis(label), latencyAxis()] }, data);
  }

  // Stopped trials, which took at least so long, are hollow.
  function scatter(id, timed, stopped) {
    const points = [...timed.map((point) => [...point, false]), ...stopped.map((point) => [...point, true])]
      .filter((point) => point[2] !== null).sort((a, b) => a[2] - b[2]);
    const dots = (label, fill) => ({
      label, stroke: color("--series"), paths: () => null, value: (_plot, value) => latency(value),
      points: { show: true, size: 5, width: 1, fill },
    });
    const series = [{ label: "predicted score" }, dots("measured", color("--series")), dots("stopped, at least", color("--paper"))];
    const latencies = (isStopped) => points.map((point) => point[3] === isStopped ? point[1] : null);
    const data = [points.map((point) => point[2]), latencies(false), latencies(true)];
    draw(id, { series, scales: { x: { time: false }, y: { distr: 3 } }, axes: [axis("predicted score"), latencyAxis()] }, data);
  }

  function draw(id, options, data) {
    const place = document.getElementById(id);
    place.replaceChildren();
    if (!data[0].length) {
      place.textContent = "Nothing was measured yet.";
      return;
    }
    plots.push([new uPlot({ width: place.clientWidth, height: HEIGHT, ...options }, data, place), place]);
  }

  function show() {
    for (const [plot] of plots) plot.destroy();
    plots = [];
    const numbers = chart.best.map((point) => point[0]);
    const best = chart.best.map((point) => point[1]);
    if (numbers.length) {
      numbers.push(Math.max(chart.end - 1, numbers[numbers.length - 1]));
      best.push(best[best.length - 1]);
    }
    const levels = (count) => [
      ...level("untuned", chart.untuned_s, count, color("--level")),
      ...level("without a trial", chart.untried_s, count, color("--wait")),
      ...level(chart.library, chart.library_s, count, color("--good")),
    ];
    staircase("by-trial", "trial", numbers, best, levels(numbers.length));
    const times = chart.times;
    staircase("by-time", "seconds", times.map((point) => point[0]), times.map((point) => point[1]), levels(times.length));
    scatter("by-prediction", chart.sample, chart.stopped);
  }

  async function refresh() {
    isWaiting = false;
    if (!drawings) return;
    try {
      const answer = await fetch(drawings.dataset.chart, { headers: { Accept: "application/json" } });
      if (!answer.ok || !answer.headers.get("content-type").startsWith("application/json")) return;
      chart = await answer.json();
      show();
    } catch (problem) {
      if (!(problem instanceof TypeError)) throw problem; // the service restarts: the next message refreshes
    }
  }

  // All messages of a few seconds cause one refresh.
  document.body.addEventListener("htmx:sseMessage", () => {
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(refresh, REFRESH_MS);
  });
  addEventListener("resize", () => {
    for (const [plot, place] of plots) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  });
  // Charts come into a page when the search begins, and again with the results.
  function find() {
    const found = document.getElementById("drawings");
    if (found === drawings) return;
    drawings = found;
    refresh();
  }
  document.body.addEventListener("htmx:afterSwap", find);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => chart && show());
  find();
})();
