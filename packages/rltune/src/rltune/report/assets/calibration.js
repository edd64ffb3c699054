"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const xs = unpack(data.x), shares = unpack(data.shares);

function chart(id, options) {
  return new LineChart(document.getElementById(id), options);
}

function overTime(id, part, name, least) {
  const dated = data.clock !== null;
  const at = dated ? Float64Array.from(xs, (x) => x + data.clock) : xs;
  const lines = data.lines.map((l, index) => ({ index, pipeline: data.pipelines[index], xs: at, ys: unpack(l[part]) }));
  const top = Math.max(least, ...lines.map((l) => l.ys.reduce((a, b) => Math.max(a, b), 0)));
  const span = xs[xs.length - 1], begin = dated ? data.clock : 0;
  const writeX = dated ? (v) => moment(v, span) : (v) => seconds(v, span);
  chart(id, { name, lines, kind: "time", domain: [begin, begin + span], top, writeX, writeY: short });
}

const waits = data.lines.map((l, index) => ({ index, pipeline: data.pipelines[index], xs: unpack(l.wait), ys: shares }));
const longest = Math.max(10, ...waits.map((l) => l.xs[l.xs.length - 1]));
chart("wait-chart", { name: "Distribution of the wait", lines: waits, kind: "logTime", domain: [1, longest * 1.3], top: 1, writeX: (v) => seconds(v), writeY: percent, extend: true });
overTime("queue-chart", "queue", "Jobs waiting over time", 1);
overTime("use-chart", "use", "GPUs in use over time", data.gpus);

const legend = document.getElementById("legend");
data.pipelines.forEach((pipeline) => legend.append(element("span", {}, swatch(pipeline), pipeline.label)));
document.documentElement.dataset.ready = "yes";
