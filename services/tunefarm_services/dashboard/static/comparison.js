// Draws the courses of two jobs on one chart, by trial and by time.
"use strict";

(() => {
  const drawings = document.getElementById("comparison");
  if (!drawings) return;

  const HEIGHT = 280;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const UNITS = [[1e-6, 1e9, "ns"], [1e-3, 1e6, "us"], [1, 1e3, "ms"]];
  let courses = null;
  let plots = [];

  function latency(seconds) {
    if (seconds === null || seconds === undefined) return "-";
    for (const [limit, factor, unit] of UNITS)
      if (seconds < limit) return `${Number((seconds * factor).toPrecision(4))} ${unit}`;
    return `${Number(seconds.toPrecision(4))} s`;
  }

  // The best latency by each position of either job; null before a job's first and after its last.
  function aligned(points, field, positions) {
    let next = 0;
    let best = null;
    return positions.map((position) => {
      while (next < points.length && points[next][field] <= position) best = points[next++].latency_s;
      return points.length && position <= points[points.length - 1][field] ? best : null;
    });
  }

  function draw(id, field, label) {
    const place = document.getElementById(id);
    const positions = [...new Set([...courses.first, ...courses.second].map((point) => point[field]))].sort((a, b) => a - b);
    place.replaceChildren();
    if (!positions.length) {
      place.textContent = "Neither job has measured this function yet.";
      return;
    }
    const axis = (extra) => ({ stroke: color("--quiet"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") }, ...extra });
    const series = (name, stroke, dash) => ({
      label: name, stroke, dash, width: 2, value: (_plot, value) => latency(value),
      paths: uPlot.paths.stepped({ align: 1 }), points: { show: positions.length < 60 },
    });
    const options = {
      width: place.clientWidth, height: HEIGHT, scales: { x: { time: false }, y: { distr: 3 } },
      series: [{ label }, series("first", color("--series")), series("second", color("--wait"), [8, 4])],
      axes: [axis({ label }), axis({ size: 72, values: (_plot, ticks) => ticks.map((tick) => (tick === null ? "" : latency(tick))) })],
    };
    const data = [positions, aligned(courses.first, field, positions), aligned(courses.second, field, positions)];
    plots.push([new uPlot(options, data, place), place]);
  }

  function show() {
    for (const [plot] of plots) plot.destroy();
    plots = [];
    draw("compare-by-trial", "trials", "trial");
    draw("compare-by-time", "elapsed_s", "seconds");
  }

  async function read() {
    try {
      const answer = await fetch(drawings.dataset.chart, { headers: { Accept: "application/json" } });
      if (!answer.ok || !answer.headers.get("content-type").startsWith("application/json")) return;
      courses = await answer.json();
      show();
    } catch (problem) {
      if (!(problem instanceof TypeError)) throw problem; // the service restarts
    }
  }

  addEventListener("resize", () => {
    for (const [plot, place] of plots) plot.setSize({ width: place.clientWidth, height: HEIGHT });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => courses && show());
  read();
})();
