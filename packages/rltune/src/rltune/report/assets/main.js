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

function overTime(id, part, writeY, top, name) {
  const xs = unpack(data.time.x);
  const drawn = data.time.lines.filter((l) => l[part]).map((l) => ({ index: l.of, pipeline: data.pipelines[l.of], xs, ys: unpack(l[part]) }));
  const most = top || Math.max(1, ...drawn.map((l) => l.ys.reduce((a, b) => Math.max(a, b), 0)));
  const domain = [0, xs[xs.length - 1]];
  charts.push(new LineChart(document.getElementById(id), { name, lines: drawn, kind: "time", domain, top: most, writeX: (v) => seconds(v, domain[1]), writeY }));
}

distribution("wait-chart", data.wait, "logTime", tickTime, "Distribution of the wait");
distribution("slowdown-chart", data.slowdown, "log", short, "Distribution of the bounded slowdown");
overTime("queue-chart", "queue", short, 0, "Jobs waiting over time");
overTime("use-chart", "use", percent, 1, "Share of GPUs in use over time");
if (document.getElementById("turns-chart")) overTime("turns-chart", "displaced", short, 0, "Spells cut short so far");

const legend = document.getElementById("legend");
data.pipelines.forEach((pipeline, index) => {
  const button = element("button", { type: "button", "aria-pressed": "true" }, swatch(pipeline), pipeline.label);
  button.addEventListener("click", () => {
    const show = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", String(show));
    for (const chart of charts) {
      chart.hidden[show ? "delete" : "add"](index);
      chart.draw();
    }
  });
  legend.append(button);
});

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
