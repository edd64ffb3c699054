"use strict";
// Show every new cycle as it comes, unless somebody is in the middle of something here.
const main = document.querySelector("main[data-cycle]");
const fresh = document.getElementById("fresh");

function busy() {
  const at = document.activeElement;
  const inside = at && at !== main && main.contains(at);
  const opened = main.querySelector("details[open], table[data-live] [aria-sort]");
  return Boolean(inside || opened || String(getSelection()));
}

async function renew() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  const content = next.querySelector("main[data-cycle]");
  if (!content || busy()) return;
  const scrolled = [...main.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
  document.title = next.title;
  main.replaceChildren(...content.childNodes);
  main.dataset.cycle = content.dataset.cycle;
  [...main.querySelectorAll(".scroll")].forEach((box, i) => { [box.scrollLeft, box.scrollTop] = scrolled[i] || [0, 0]; });
  document.querySelector("footer").firstChild.textContent = next.querySelector("footer").firstChild.textContent;
  liveTables(main);
}

if (main && fresh && !main.querySelector("[data-still]")) {
  const source = new EventSource("/api/v1/stream");
  source.addEventListener("cycle", (event) => {
    const newer = String(JSON.parse(event.data).cycle) !== main.dataset.cycle;
    fresh.textContent = newer && busy() ? "Newer cycles wait until you leave this part of the page." : "Live.";
    if (newer && !busy()) renew();
  });
  source.onerror = () => { fresh.textContent = "Not live: the service does not answer."; };
}

// Parts that take seconds come after their page.
async function later(part) {
  part.querySelector("p").textContent = "Changes of its request are being tried in the core\u2026";
  let next = null;
  try {
    const answer = await fetch(part.dataset.later, { headers: { accept: "text/html" } });
    if (answer.ok) next = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
  } catch { /* the service does not answer */ }
  if (next) part.replaceChildren(...next.childNodes);
  else part.querySelector("p").textContent = "They could not be tried: reload the page.";
}
for (const part of document.querySelectorAll("[data-later]")) later(part);

// A forecast that is being made is asked for until it is there.
const AGAIN_MS = 3000;
async function again(part) {
  try {
    const answer = await fetch(part.dataset.again, { headers: { accept: "text/html" } });
    const next = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(part.id);
    if (next && !next.dataset.again) {
      part.replaceChildren(...next.childNodes);
      return;
    }
  } catch { /* the service does not answer: perhaps it will */ }
  setTimeout(again, AGAIN_MS, part);
}
for (const part of document.querySelectorAll("[data-again]")) setTimeout(again, AGAIN_MS, part);
