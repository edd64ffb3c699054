"use strict";
// Tables that sort by a click on a heading, and are searched by words. Without scripts they are as they came.

function sortValue(cell) {
  const text = (cell?.dataset.value ?? cell?.firstChild?.textContent ?? "").trim();
  const plain = text.replace(/,/g, "");
  const [, number, unit] = /^([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(ms|s|min|h|d|%)?/.exec(plain) || [];
  return number === undefined ? text.toLowerCase() : Number(number) * ({ ms: 0.001, min: 60, h: 3600, d: 86400 }[unit] || 1);
}

function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, place) => ({ row, place, value: sortValue(row.cells[column]) }));
  const kind = (v) => (v === "" || v === "-" ? 2 : typeof v === "number" ? 0 : 1);  // what is not known stays last
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

function searchTables(input, tables) {
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const table of tables) {
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    }
  });
}

function liveTables(root = document) {
  root.querySelectorAll("table[data-sortable]:not([data-live])").forEach((table) => {
    table.dataset.live = "yes";
    makeSortable(table);
  });
}
liveTables();
