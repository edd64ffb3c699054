"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const charts = [];
const starts = unpack(data.start);

/** One line a pipeline over the windows, by the job at which each starts. */
function byWindow(id, columns, writeY, name, leftOut = []) {
  const drawn = columns
    .map((column, index) => ({ index, pipeline: data.pipelines[index], xs: starts, ys: unpack(column) }))
    .filter((line) => !leftOut.includes(line.index));
  const top = Math.max(1e-9, ...drawn.map((line) => line.ys.reduce((a, b) => Math.max(a, b), 0)));
  const domain = [starts[0], Math.max(starts[starts.length - 1], starts[0] + 1)];
  const writeX = (v) => Math.round(v).toLocaleString("en");
  charts.push(new LineChart(document.getElementById(id), { name, lines: drawn, kind: "linear", domain, top, writeX, writeY: (v) => writeY(v, top) }));
}

byWindow("wait-chart", data.wait, seconds, "Mean wait by window", data.pipelines.length > 1 ? [data.fcfs] : []);
byWindow("ratio-chart", data.ratio, short, "Mean wait over that of the reference by window", data.pipelines.length > 1 ? [data.fcfs] : []);

makeLegend(document.getElementById("legend"), charts, data.pipelines, data.shown, data.pipelines.length > 1 ? [data.fcfs] : []);
for (const name of ["beforeprint", "afterprint"]) addEventListener(name, () => charts.forEach((c) => c.draw()));
document.documentElement.dataset.ready = "yes";
