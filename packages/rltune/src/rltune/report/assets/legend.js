"use strict";
const MOST_SERIES = 8;

/** Buttons that show and hide lines: at most eight at once, so that they can be told apart. `left`: in no chart. */
function makeLegend(box, charts, pipelines, shown, left = []) {
  const order = [...shown];
  const buttons = new Map();
  const note = element("span", { class: "note", role: "status" });

  function draw() {
    for (const [index, button] of buttons) button.setAttribute("aria-pressed", String(order.includes(index)));
    for (const chart of charts) {
      chart.hidden = new Set([...buttons.keys()].filter((index) => !order.includes(index)));
      chart.draw();
    }
    note.textContent = buttons.size > order.length ? `${order.length} of ${buttons.size} are drawn, at most ${MOST_SERIES} at once.` : "";
  }

  pipelines.forEach((pipeline, index) => {
    if (left.includes(index)) return;
    const button = element("button", { type: "button" }, swatch(pipeline), pipeline.label);
    button.addEventListener("click", () => {
      if (order.includes(index)) order.splice(order.indexOf(index), 1);
      else order.push(index);
      if (order.length > MOST_SERIES) order.shift();  // the one that has been there longest
      draw();
    });
    buttons.set(index, button);
    box.append(button);
  });
  box.append(note);
  draw();
  return { draw };
}
