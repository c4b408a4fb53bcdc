// Draws the courses of two jobs on one chart, by trial and by time.
"use strict";

(() => {
  const drawings = document.getElementById("comparison");
  if (!drawings) return;
  let courses = null;

  // The best latency by each position of either job; null before a job's first and after its last.
  function aligned(points, field, positions) {
    let next = 0;
    let best = null;
    return positions.map((position) => {
      while (next < points.length && points[next][field] <= position) best = points[next++].latency_s;
      return points.length && position <= points[points.length - 1][field] ? best : null;
    });
  }

  const redraw = charts.canvas(280, (draw) => {
    if (!courses) return;
    for (const [id, field, label] of [["compare-by-trial", "trials", "trial"], ["compare-by-time", "elapsed_s", "seconds"]]) {
      const positions = [...new Set([...courses.first, ...courses.second].map((point) => point[field]))].sort((a, b) => a - b);
      const lines = [
        charts.stairs("first", charts.color("--series"), positions.length),
        charts.stairs("second", charts.color("--wait"), positions.length, { dash: [8, 4] }),
      ];
      const data = [positions, aligned(courses.first, field, positions), aligned(courses.second, field, positions)];
      draw(id, label, lines, data, "Neither job has measured this function yet.");
    }
  });

  charts.read(drawings.dataset.chart).then((found) => {
    courses = found;
    redraw();
  });
})();
