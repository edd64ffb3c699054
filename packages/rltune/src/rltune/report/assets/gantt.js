"use strict";
const SIZE_STEPS = [[1, "1 GPU"], [4, "2 to 4"], [8, "5 to 8"], [32, "9 to 32"], [Infinity, "33 and more"]];
const WAIT_STEPS = [[60, "under 1 min"], [600, "1 to 10 min"], [3600, "10 to 60 min"], [21600, "1 to 6 h"], [86400, "6 to 24 h"], [Infinity, "over 24 h"]];
const VC_COLOURS = 7;
const AXIS = 24;
const LABELS = 64;

/** Bars by GPU and time on a canvas: only what is in view is drawn, colour by colour. */
class Gantt {
  constructor(canvas, tip, data, pipelines) {
    Object.assign(this, { canvas, tip, data, pipelines, colourBy: "gpus", shown: 0, hover: -1 });
    this.ids = data.ids;
    this.submit = unpack(data.submit);
    this.gpus = unpack(data.gpus);
    this.user = unpack(data.user.codes);
    this.vc = unpack(data.vc.codes);
    this.runs = data.runs.map((run) => {
      const start = unpack(run.start), end = unpack(run.end), job = unpack(run.job);
      // A job that took turns has several spells; any other has one, which is the job's own time.
      const spells = run.spell ? { spell: unpack(run.spell), from: unpack(run.from), to: unpack(run.to) } : { spell: job, from: start, to: end };
      return { of: run.of, start, end, job, lane: unpack(run.lane), lanes: unpack(run.lanes), ...spells };
    });
    this.rankVcs();
    this.nodes = [];
    let lane = 0;
    for (const group of data.nodes.groups) {
      for (let i = 0; i < group.count; i++, lane += group.gpus) this.nodes.push({ first: lane, gpus: group.gpus, group: group.name });
    }
    this.laneCount = Math.max(1, lane);
    this.fit();
    this.listen();
  }

  /** Give the VCs with most jobs a colour of their own; the others share one. */
  rankVcs() {
    const count = new Array(this.data.vc.names.length).fill(0);
    for (const code of this.vc) count[code]++;
    this.vcRank = count.map((_, code) => code).filter((code) => count[code]).sort((a, b) => count[b] - count[a]);
    this.vcPlace = count.map((_, code) => Math.min(this.vcRank.indexOf(code), VC_COLOURS));
  }

  fit() {
    this.t = [0, Math.max(1, this.data.end)];
    this.l = [0, this.laneCount];
    this.draw();
  }

  get run() { return this.runs[this.shown]; }

  size() {
    const { width, height } = this.canvas.getBoundingClientRect();
    return { width, height, w: width - LABELS, h: height - AXIS };
  }

  x(t) { return LABELS + ((t - this.t[0]) / (this.t[1] - this.t[0])) * this.size().w; }
  y(l) { return ((l - this.l[0]) / (this.l[1] - this.l[0])) * this.size().h; }

  /** Redraw in the next frame, once however often asked. */
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    const { width, height, w, h } = this.size();
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const css = getComputedStyle(document.documentElement);
    this.ink = (name) => css.getPropertyValue(`--${name}`).trim();
    pen.font = "11px system-ui, sans-serif";
    this.rows(pen, width, h);
    pen.save();
    pen.beginPath();
    pen.rect(LABELS, 0, w, h);
    pen.clip();
    this.bars(pen, w, h);
    this.mark(pen, w, h);
    pen.restore();
    this.timeAxis(pen, width, h);
  }

  rows(pen, width, h) {
    const unit = h / (this.l[1] - this.l[0]);
    let free = 0;  // from where on there is room for a label
    pen.strokeStyle = this.ink("line");
    pen.fillStyle = this.ink("soft");
    pen.textBaseline = "middle";
    this.nodes.forEach((node, i) => {
      const top = this.y(node.first), bottom = this.y(node.first + node.gpus);
      if (bottom < 0 || top > h) return;
      if (unit * node.gpus > 5) {
        pen.beginPath();
        pen.moveTo(LABELS, Math.round(top) + 0.5);
        pen.lineTo(width, Math.round(top) + 0.5);
        pen.stroke();
      }
      const middle = Math.max(7, (top + bottom) / 2);
      if (middle - 6 < free || middle > h) return;
      pen.fillText(`node ${i}`, 6, middle);
      free = middle + 8;
    });
  }

  /** Paint bars of one colour together: a change of colour costs more than a rectangle. */
  bars(pen, w, h) {
    const run = this.run, scaleX = w / (this.t[1] - this.t[0]), scaleY = h / (this.l[1] - this.l[0]);
    const gap = scaleY > 5 ? 1 : scaleY > 2.5 ? 0.4 : 0;
    const colours = this.colours();
    const piles = colours.map(() => []);
    for (let i = 0; i < run.job.length; i++) {
      const j = run.job[i], s = run.spell[i];
      if (run.from[s] > this.t[1] || run.to[s] < this.t[0]) continue;
      if (run.lane[i] > this.l[1] || run.lane[i] + run.lanes[i] < this.l[0]) continue;
      piles[this.key(j)].push(i);
    }
    piles.forEach((pile, k) => {
      pen.fillStyle = colours[k].ink;
      for (const i of pile) {
        const s = run.spell[i];
        const left = LABELS + (run.from[s] - this.t[0]) * scaleX;
        const wide = (run.to[s] - run.from[s]) * scaleX;
        const edge = wide > 3 ? 0.6 : 0;
        pen.fillRect(left, (run.lane[i] - this.l[0]) * scaleY, Math.max(wide - edge, 0.6), Math.max(run.lanes[i] * scaleY - gap, 0.6));
      }
    });
  }

  /** Outline the job pointed at, and draw its wait as a line up to its start. */
  mark(pen, w, h) {
    if (this.hover < 0) return;
    const run = this.run, j = this.hover, scaleY = h / (this.l[1] - this.l[0]);
    pen.strokeStyle = this.ink("ink");
    for (let i = 0; i < run.job.length; i++) {
      if (run.job[i] !== j) continue;
      const s = run.spell[i];
      const left = this.x(run.from[s]), top = (run.lane[i] - this.l[0]) * scaleY;
      pen.lineWidth = 1.5;
      pen.strokeRect(left, top, Math.max(this.x(run.to[s]) - left, 1), Math.max(run.lanes[i] * scaleY, 1));
      pen.lineWidth = 1;
      pen.setLineDash([3, 3]);
      pen.beginPath();
      pen.moveTo(this.x(this.submit[j]), top + (run.lanes[i] * scaleY) / 2);
      pen.lineTo(left, top + (run.lanes[i] * scaleY) / 2);
      pen.stroke();
      pen.setLineDash([]);
    }
  }

  timeAxis(pen, width, h) {
    pen.fillStyle = this.ink("soft");
    pen.strokeStyle = this.ink("line");
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const t of timeTicks(...this.t, Math.max(2, Math.floor(width / 110)))) {
      const x = this.x(t);
      pen.beginPath();
      pen.moveTo(x, h);
      pen.lineTo(x, h + 4);
      pen.stroke();
      if (x < width - 20) pen.fillText(seconds(t, this.t[1]), x, h + 7);
    }
    pen.textAlign = "start";
  }

  colours() {
    const steps = { gpus: SIZE_STEPS, wait: WAIT_STEPS }[this.colourBy];
    if (steps) return steps.map(([, name], i) => ({ name, ink: this.ink(`s${i}`) }));
    const named = this.vcRank.slice(0, VC_COLOURS).map((code, i) => ({ name: this.data.vc.names[code] || "none", ink: this.ink(`c${i}`) }));
    return [...named, { name: "others", ink: this.ink(`c${VC_COLOURS}`) }];
  }

  key(j) {
    if (this.colourBy === "vc") return this.vcPlace[this.vc[j]];
    const steps = this.colourBy === "gpus" ? SIZE_STEPS : WAIT_STEPS;
    const value = this.colourBy === "gpus" ? this.gpus[j] : this.run.start[j] - this.submit[j];
    return steps.findIndex(([most]) => value <= most);
  }

  zoom(axis, factor, centre) {
    const range = this[axis], most = axis === "t" ? Math.max(1, this.data.end) : this.laneCount;
    const least = axis === "t" ? Math.min(most, 10) : Math.min(most, 4);
    const length = Math.min(most, Math.max(least, (range[1] - range[0]) * factor));
    const share = (centre - range[0]) / (range[1] - range[0]);
    this.set(axis, centre - share * length, length);
  }

  pan(axis, by) { this.set(axis, this[axis][0] + by, this[axis][1] - this[axis][0]); }

  set(axis, first, length) {
    const most = axis === "t" ? Math.max(1, this.data.end) : this.laneCount;
    const from = Math.min(Math.max(0, first), most - length);
    this[axis] = [from, from + length];
    this.draw();
  }

  listen() {
    const middle = (axis) => (this[axis][0] + this[axis][1]) / 2;
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    this.canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== this.canvas && !event.ctrlKey) return;
      event.preventDefault();
      const box = this.canvas.getBoundingClientRect(), { w, h } = this.size();
      const factor = 1.0015 ** (event.deltaY || event.deltaX);
      if (event.shiftKey) this.zoom("l", factor, this.l[0] + ((event.clientY - box.top) / h) * (this.l[1] - this.l[0]));
      else this.zoom("t", factor, this.t[0] + ((event.clientX - box.left - LABELS) / w) * (this.t[1] - this.t[0]));
    }, { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.classList.add("moving");
      this.from = [event.clientX, event.clientY];
    });
    for (const name of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(name, () => { this.from = null; this.canvas.classList.remove("moving"); });
    }
    this.canvas.addEventListener("pointermove", (event) => (this.from ? this.drag(event) : this.point(event)));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; this.hover = -1; this.draw(); });
    this.canvas.addEventListener("dblclick", () => this.fit());
    this.canvas.addEventListener("keydown", (event) => {
      const [t, l] = [this.t[1] - this.t[0], this.l[1] - this.l[0]];
      const act = {
        ArrowLeft: () => this.pan("t", -t / 8), ArrowRight: () => this.pan("t", t / 8),
        ArrowUp: () => this.pan("l", -l / 8), ArrowDown: () => this.pan("l", l / 8),
        "+": () => this.zoom("t", 0.7, middle("t")), "-": () => this.zoom("t", 1.4, middle("t")), 0: () => this.fit(),
      }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
  }

  drag(event) {
    const { w, h } = this.size();
    this.pan("t", ((this.from[0] - event.clientX) / w) * (this.t[1] - this.t[0]));
    this.pan("l", ((this.from[1] - event.clientY) / h) * (this.l[1] - this.l[0]));
    this.from = [event.clientX, event.clientY];
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), { w, h } = this.size(), run = this.run;
    const px = event.clientX - box.left, py = event.clientY - box.top;
    const t = this.t[0] + ((px - LABELS) / w) * (this.t[1] - this.t[0]);
    const lane = this.l[0] + (py / h) * (this.l[1] - this.l[0]), near = (2 * (this.t[1] - this.t[0])) / w;
    let found = -1;
    for (let i = 0; i < run.job.length && px > LABELS; i++) {
      const j = run.job[i], s = run.spell[i];
      if (lane >= run.lane[i] && lane < run.lane[i] + run.lanes[i] && t >= run.from[s] - near && t <= run.to[s] + near) found = j;
    }
    if (found !== this.hover) { this.hover = found; this.draw(); }
    this.tip.hidden = found < 0;
    if (found < 0) return;
    const node = this.nodes.findIndex((n) => lane < n.first + n.gpus);
    this.tip.replaceChildren(this.describe(found, node));
    place(this.tip, px, py, box.width);
  }

  /** Return the spells of a job, by their numbers. */
  spellsOf(j) {
    const found = new Set();
    this.run.job.forEach((job, i) => { if (job === j) found.add(this.run.spell[i]); });
    return [...found];
  }

  describe(j, node) {
    const run = this.run, wait = run.start[j] - this.submit[j], spells = this.spellsOf(j);
    const length = spells.reduce((sum, s) => sum + run.to[s] - run.from[s], 0);
    const took = run.end[j] - this.submit[j];
    const turns = spells.length > 1; // then what it ran includes restarts and lost work, which no slowdown counts
    const facts = [
      ["job", this.ids[j]], ["GPUs", this.gpus[j]], ["here", `node ${node} ${this.nodes[node].group}`],
      ["user", this.data.user.names[this.user[j]]], ["VC", this.data.vc.names[this.vc[j]]],
      ["submitted at", seconds(this.submit[j])], ["waited", seconds(wait)], ["ran", seconds(length)],
      turns ? ["in turns", `${spells.length} spells, ended after ${seconds(took)}`] : ["slowdown", short(Math.max(1, took / Math.max(length, 10)))],
    ];
    const table = element("table");
    for (const [name, value] of facts) {
      if (value !== "") table.append(element("tr", {}, element("th", {}, name), element("td", {}, String(value))));
    }
    return table;
  }
}
