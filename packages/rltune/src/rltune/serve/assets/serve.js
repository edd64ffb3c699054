"use strict";
// Tell when a newer cycle is there, and show it unless somebody is typing.
const main = document.querySelector("main[data-cycle]");
const fresh = document.getElementById("fresh");

function typing() {
  const at = document.activeElement;
  return Boolean(at && at.closest("form"));
}

async function renew() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  const content = next.querySelector("main[data-cycle]");
  if (!content || typing()) return;
  const at = document.activeElement && document.activeElement.id;
  document.title = next.title;
  main.replaceChildren(...content.childNodes);
  main.dataset.cycle = content.dataset.cycle;
  document.querySelector("footer").firstChild.textContent = next.querySelector("footer").firstChild.textContent;
  if (at) document.getElementById(at)?.focus();
}

if (main && fresh && !main.querySelector("[data-still]")) {
  const source = new EventSource("/api/v1/stream");
  source.addEventListener("cycle", (event) => {
    fresh.textContent = "Live.";
    if (String(JSON.parse(event.data).cycle) !== main.dataset.cycle) renew();
  });
  source.onerror = () => { fresh.textContent = "Not live: the service does not answer."; };
}
