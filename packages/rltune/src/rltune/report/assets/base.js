"use strict";
const KINDS = { f4: Float32Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.b), (c) => c.charCodeAt(0));
  return new KINDS[packed.t](bytes.buffer);
}

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "text", "rect"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function swatch(pipeline) {
  const line = element("line", { x1: 0, y1: 4, x2: 24, y2: 4 });
  return element("svg", { class: `swatch c${pipeline.colour % 8} d${pipeline.dash % 4}`, viewBox: "0 0 24 8" }, line);
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** A time in the greatest unit of which it, or `like`, has at least two. */
function seconds(value, like = value) {
  const [size, unit] = UNITS.find(([s]) => Math.abs(like) >= 2 * s) || [1, "s"];
  const shown = value / size;
  const rounded = Number(shown.toFixed(Math.abs(shown) < 10 ? 1 : 0));
  const told = rounded || !shown ? rounded : Number(shown.toPrecision(1));  // what is not 0 is not written as 0
  return `${told.toLocaleString("en")} ${unit}`;
}

/** A moment by the clock of the history, as short as a span of so many seconds allows. */
function moment(value, span) {
  const text = new Date(1000 * value).toISOString();
  if (span > 300 * 86400) return text.slice(0, 7);
  return span > 3 * 86400 ? text.slice(5, 10) : `${text.slice(5, 10)} ${text.slice(11, 16)}`;
}

function short(value) {
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

const percent = (value) => `${Number((100 * value).toPrecision(3))} %`;

/** Round steps that cut [low, high] into about `count` parts. */
function ticks(low, high, count, bases = [1, 2, 2.5, 5, 10]) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * bases.find((b) => b * power >= rough * 0.999);
  const made = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) made.push(v);
  return made;
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000];

const LOG_TIMES = [1, 10, 60, 600, 3600, 21600, 86400, 864000, 8640000];

function timeTicks(low, high, count) {
  const step = TIME_STEPS.find((s) => (high - low) / s <= count);
  if (!step) return ticks(low / 86400, high / 86400, count).map((d) => d * 86400);
  const made = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) made.push(v);
  return made;
}
