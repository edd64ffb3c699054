"use strict";
const MARGIN = { left: 46, right: 12, top: 8, bottom: 26 };

const SCALES = {
  linear: { of: (v) => v, back: (v) => v, ticks },
  time: { of: (v) => v, back: (v) => v, ticks: timeTicks },
  log: {
    of: Math.log10,
    back: (v) => 10 ** v,
    ticks: (low, high) => {
      const powers = [];
      for (let p = Math.ceil(Math.log10(low) - 1e-9); p <= Math.log10(high) + 1e-9; p++) powers.push(10 ** p);
      return powers;
    },
  },
};
SCALES.logTime = { ...SCALES.log, ticks: (low, high) => LOG_TIMES.filter((t) => t >= low && t <= high) };

/** A line chart that redraws itself; `lines` have a pipeline, x and y, and x and y rise from left to right. */
class LineChart {
  constructor(box, options) {
    Object.assign(this, { box, ...options });
    this.hidden = new Set();
    this.tip = element("div", { class: "tip", hidden: "" });
    new ResizeObserver(() => this.draw()).observe(box);
    box.addEventListener("pointermove", (event) => this.point(event));
    box.addEventListener("pointerleave", () => this.leave());
  }

  draw() {
    const { width, height } = this.box.getBoundingClientRect();
    if (!width) return;
    const scale = SCALES[this.kind];
    const [low, high] = this.domain.map(scale.of);
    this.x = (v) => MARGIN.left + ((scale.of(Math.max(v, this.domain[0])) - low) / (high - low)) * (width - MARGIN.left - MARGIN.right);
    this.value = (px) => scale.back(low + ((px - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (high - low));
    this.y = (v) => height - MARGIN.bottom - (v / this.top) * (height - MARGIN.top - MARGIN.bottom);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": this.name });
    this.axes(svg, width, height, scale);
    for (const line of this.lines) {
      if (this.hidden.has(line.index)) continue;
      svg.append(element("path", { class: `c${line.pipeline.colour % 8} d${line.pipeline.dash % 4}`, d: this.path(line) }));
    }
    this.cross = element("line", { class: "cross", y1: MARGIN.top, y2: height - MARGIN.bottom, visibility: "hidden" });
    svg.append(this.cross);
    this.box.replaceChildren(svg, this.tip);
  }

  axes(svg, width, height, scale) {
    for (const v of ticks(0, this.top, 4)) {
      const y = this.y(v);
      svg.append(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y, y2: y }));
      svg.append(element("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, this.writeY(v)));
    }
    const all = scale.ticks(...this.domain, Math.max(2, Math.floor(width / 90)));
    const every = Math.ceil((all.length * 52) / (width - MARGIN.left));
    all.forEach((v, i) => {
      const x = this.x(v);
      svg.append(element("line", { class: "grid", x1: x, x2: x, y1: MARGIN.top, y2: height - MARGIN.bottom }));
      if (i % every === 0) {
        const anchor = x > width - 30 ? "end" : "middle";
        svg.append(element("text", { x, y: height - 8, "text-anchor": anchor }, this.writeX(v)));
      }
    });
  }

  path(line) {
    const parts = [];
    let first = 0;  // what lies left of the chart is one point on its edge
    while (first + 1 < line.xs.length && line.xs[first + 1] <= this.domain[0]) first++;
    for (let i = first; i < line.xs.length; i++) parts.push(`${this.x(line.xs[i]).toFixed(1)},${this.y(line.ys[i]).toFixed(1)}`);
    const end = this.extend ? ` L${this.x(this.domain[1]).toFixed(1)},${this.y(line.ys[line.ys.length - 1]).toFixed(1)}` : "";
    return `M${parts.join("L")}${end}`;
  }

  /** The last y whose x is not beyond v. */
  at(line, v) {
    let low = 0, high = line.xs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (line.xs[middle] <= v) low = middle + 1; else high = middle;
    }
    return low ? line.ys[low - 1] : 0;
  }

  point(event) {
    const box = this.box.getBoundingClientRect();
    const px = Math.min(Math.max(event.clientX - box.left, MARGIN.left), box.width - MARGIN.right);
    const v = this.value(px);
    this.cross.setAttribute("x1", px);
    this.cross.setAttribute("x2", px);
    this.cross.setAttribute("visibility", "visible");
    const rows = this.lines.filter((l) => !this.hidden.has(l.index)).map((l) => [l, this.at(l, v)]);
    rows.sort((a, b) => b[1] - a[1]);
    const table = element("table");
    for (const [line, y] of rows.slice(0, 12)) {
      table.append(element("tr", {}, element("th", {}, swatch(line.pipeline), line.pipeline.label), element("td", {}, this.writeY(y))));
    }
    this.tip.replaceChildren(element("b", {}, this.writeX(v)), table);
    this.tip.hidden = false;
    place(this.tip, px, event.clientY - box.top, box.width);
  }

  leave() {
    this.tip.hidden = true;
    if (this.cross) this.cross.setAttribute("visibility", "hidden");
  }
}

/** Put a tip beside a point, on the side where there is room. */
function place(tip, x, y, width) {
  const left = x + 16 + tip.offsetWidth > width ? x - 16 - tip.offsetWidth : x + 16;
  tip.style.left = `${Math.max(0, left)}px`;
  tip.style.top = `${y + 12}px`;
}
