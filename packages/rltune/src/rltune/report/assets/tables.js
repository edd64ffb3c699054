"use strict";
// Tables that sort by a click on a heading, and are searched by words. Without scripts they are as they came.

function sortValue(cell) {
  const parts = [...(cell?.childNodes ?? [])].filter((part) => part.nodeName !== "SMALL");
  const text = (cell?.dataset.value ?? parts.map((part) => part.textContent).join("")).trim();
  const plain = text.replace(/,/g, "");
  // "-0.7 [-12.7, 11.9] h" has its unit behind the interval.
  const [, number, unit] = /^([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(?:\[[^\]]*\])?\s*(ms|s|min|h|d)?(?![a-z])/.exec(plain) || [];
  return number === undefined ? text.toLowerCase() : Number(number) * ({ ms: 0.001, min: 60, h: 3600, d: 86400 }[unit] || 1);
}

function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, place) => ({ row, place, value: sortValue(row.cells[column]) }));
  const kind = (v) => (v === "" || v === "-" || v === "baseline" ? 2 : typeof v === "number" ? 0 : 1);  // what is not known stays last
  rows.sort((a, b) => {
    const kinds = kind(a.value) - kind(b.value);
    if (kinds) return kinds;
    const order = a.value < b.value ? -1 : a.value > b.value ? 1 : a.place - b.place;
    return descending ? -order : order;
  });
  body.append(...rows.map((entry) => entry.row));
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (head.matches(".forest") || !head.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortTable(table, column, descending);
    });
  });
}

/** A field that leaves only the rows with all its words, in every table of the page. */
function makeSearch(tables) {
  const input = document.createElement("input");
  input.type = "search";
  const label = document.createElement("label");
  label.append("Find in the tables ", input);
  const line = document.createElement("p");
  line.className = "find";
  line.append(label);
  tables[0].closest(".scroll").before(line);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const table of tables) {
      for (const row of table.tBodies[0].rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    }
  });
}

const MANY_ROWS = 8;

function liveTables(root = document) {
  const tables = [...root.querySelectorAll("table[data-sortable]:not([data-live])")];
  for (const table of tables) {
    table.dataset.live = "yes";
    makeSortable(table);
  }
  if (tables.some((table) => table.tBodies[0].rows.length > MANY_ROWS)) makeSearch(tables);
}
liveTables();
