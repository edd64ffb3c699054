"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const charts = [];

function lines(curves) {
  const made = curves.map((c, index) => c && { index, pipeline: data.pipelines[index], xs: unpack(c.x), ys: unpack(c.y) });
  return made.filter(Boolean);
}

function distribution(id, curves, kind, writeX, name) {
  const drawn = lines(curves);
  const high = Math.max(10, ...drawn.map((l) => l.xs[l.xs.length - 1]));
  charts.push(new LineChart(document.getElementById(id), { name, lines: drawn, kind, domain: [1, high * 1.3], top: 1, writeX, writeY: percent, extend: true }));
}

/** Whole units where a time is one: 1 h rather than 60 min. */
function tickTime(v) {
  const unit = UNITS.find(([size]) => v >= size && v % size === 0);
  return unit ? `${v / unit[0]} ${unit[1]}` : seconds(v);
}

/** The chart of one part over the time of a window, or over the share of time of all windows. */
function overTime(id, part, writeY, top, name) {
  const box = document.getElementById(id);
  if (!box) return () => {};
  const chart = new LineChart(box, { name, lines: [], kind: "time", domain: [0, 1], top: 1, writeX: String, writeY });
  charts.push(chart);
  return (time) => {
    const xs = unpack(time.x);
    chart.lines = time.lines.filter((l) => l[part]).map((l) => ({ index: l.of, pipeline: data.pipelines[l.of], xs, ys: unpack(l[part]) }));
    chart.top = top || Math.max(1, ...chart.lines.map((l) => l.ys.reduce((a, b) => Math.max(a, b), 0)));
    chart.domain = [0, xs[xs.length - 1]];
    chart.kind = time.share ? "linear" : "time";
    chart.writeX = time.share ? (v) => `${Math.round(v)} %` : (v) => seconds(v, chart.domain[1]);
    chart.draw();
  };
}

distribution("wait-chart", data.wait, "logTime", tickTime, "Distribution of the wait");
distribution("slowdown-chart", data.slowdown, "log", short, "Distribution of the bounded slowdown");
if (data.by_window) {
  const starts = unpack(data.by_window.start);
  const drawn = data.by_window.wait.map((wait, index) => ({ index, pipeline: data.pipelines[index], xs: starts, ys: unpack(wait) }));
  const top = Math.max(1e-9, ...drawn.map((l) => l.ys.reduce((a, b) => Math.max(a, b), 0)));
  const domain = [starts[0], Math.max(starts[starts.length - 1], starts[0] + 1)];
  const writeX = (v) => Math.round(v).toLocaleString("en");
  charts.push(new LineChart(document.getElementById("window-chart"), { name: "Mean wait by window", lines: drawn, kind: "linear", domain, top, writeX, writeY: (v) => seconds(v, top) }));
}
const timeCharts = [
  overTime("queue-chart", "queue", short, 0, "Jobs waiting over time"),
  overTime("use-chart", "use", percent, 1, "Share of GPUs in use over time"),
  overTime("turns-chart", "displaced", short, 0, "Spells cut short so far"),
];
const timeChoice = document.getElementById("time-choice");
if (timeChoice) {
  data.times.forEach((time, i) => timeChoice.append(element("option", { value: i }, time.name)));
  timeChoice.addEventListener("change", () => timeCharts.forEach((show) => show(data.times[Number(timeChoice.value)])));
}
const legend = document.getElementById("legend");
makeLegend(legend, charts, data.pipelines, data.shown);
timeCharts.forEach((show) => show(data.times[0]));

const gantt = new Gantt(document.getElementById("gantt"), document.getElementById("gantt-tip"), data.gantt, data.pipelines);
const runChoice = document.getElementById("gantt-run");
const colourChoice = document.getElementById("gantt-colour");
gantt.runs.forEach((run, i) => runChoice.append(element("option", { value: i }, data.pipelines[run.of].label)));
if (data.gantt.vc.names.length < 2) colourChoice.querySelector("[value=vc]").remove();

function redraw() {
  gantt.shown = Number(runChoice.value);
  gantt.colourBy = colourChoice.value;
  gantt.hover = -1;
  gantt.paint();
  const keys = gantt.colours().map((c) => {
    const mark = element("i");
    mark.style.background = c.ink;
    return element("span", {}, mark, c.name);
  });
  document.getElementById("gantt-legend").replaceChildren(...keys);
}
runChoice.addEventListener("change", redraw);
colourChoice.addEventListener("change", redraw);
document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
  const middle = (gantt.t[0] + gantt.t[1]) / 2;
  if (button.dataset.zoom === "fit") gantt.fit();
  else gantt.zoom("t", button.dataset.zoom === "in" ? 0.5 : 2, middle);
}));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
for (const name of ["beforeprint", "afterprint"]) addEventListener(name, () => { charts.forEach((c) => c.draw()); redraw(); });
redraw();
document.documentElement.dataset.ready = "yes";
