// What the charts of jobs share: units, colours, axes, and plots that follow the width and the colours of the page.
"use strict";

const charts = (() => {
  const UNITS = [[1e-6, 1e9, "ns"], [1e-3, 1e6, "us"], [1, 1e3, "ms"]];
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();

  function latency(seconds) {
    if (seconds === null || seconds === undefined) return "-";
    for (const [limit, factor, unit] of UNITS)
      if (seconds < limit) return `${Number((seconds * factor).toPrecision(4))} ${unit}`;
    return `${Number(seconds.toPrecision(4))} s`;
  }

  // Of a logarithmic axis the decades are enough, if there are several.
  function decades(_plot, splits) {
    const kept = splits.map((value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9 ? value : null);
    return kept.filter((value) => value !== null).length > 1 ? kept : splits;
  }

  function axes(label) {
    const line = { stroke: color("--line"), width: 1 };
    const seconds = {
      size: 72, values: (_plot, ticks) => ticks.map((tick) => (tick === null ? "" : latency(tick))),
      grid: { ...line, filter: decades }, ticks: { ...line, filter: decades },
    };
    const plain = { label, stroke: color("--quiet"), grid: line, ticks: line };
    return [plain, { ...plain, label: "", ...seconds }];
  }

  const series = (label, stroke, extra) => ({ label, stroke, value: (_plot, value) => latency(value), ...extra });
  const stairs = (label, stroke, count, extra) => series(label, stroke, {
    width: 2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: count < 60 }, ...extra,
  });

  // Plots that `show` draws, one after the other, each time the colours change.
  function canvas(height, show) {
    let plots = [];
    const redraw = () => {
      for (const [plot] of plots) plot.destroy();
      plots = [];
      show(draw);
    };
    function draw(id, label, lines, data, empty) {
      const place = document.getElementById(id);
      place.replaceChildren();
      if (!data[0].length) {
        place.textContent = empty;
        return;
      }
      const scales = { x: { time: false }, y: { distr: 3 } };
      const options = { width: place.clientWidth, height, scales, series: [{ label }, ...lines], axes: axes(label) };
      plots.push([new uPlot(options, data, place), place]);
    }
    addEventListener("resize", () => {
      for (const [plot, place] of plots) plot.setSize({ width: place.clientWidth, height });
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    return redraw;
  }

  // The points of a chart; null if there are none, or while the service restarts.
  async function read(address) {
    try {
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (!answer.ok || !answer.headers.get("content-type").startsWith("application/json")) return null;
      return await answer.json();
    } catch (problem) {
      if (problem instanceof TypeError) return null;
      throw problem;
    }
  }

  return { color, series, stairs, canvas, read };
})();
