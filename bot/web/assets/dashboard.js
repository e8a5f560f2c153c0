// Keeps a page up to date while the daemon works. Every page is complete without it.
"use strict";

(() => {
  // On a phone the names of the pages do not fit: show that of this one.
  // Not by scrollIntoView: Chromium 150 lets the tab key go on from there, past the link to the content.
  const here = document.querySelector("nav [aria-current]");
  if (here) {
    const [pages, name] = [here.parentElement, here].map((one) => one.getBoundingClientRect());
    here.parentElement.scrollLeft += name.left - pages.left - (pages.width - name.width) / 2;
  }

  const main = document.getElementById("content");
  const note = document.getElementById("live-state");
  const address = main.dataset.live;
  if (!address || !window.EventSource) return;
  const EVERY_MS = 3000;
  let last = 0;
  let timer = null;
  let busy = false;

  // What a person is typing into, has selected or has opened stays as it is.
  function isInUse() {
    const active = document.activeElement;
    const typing = active && main.contains(active) && active.matches("input, select, textarea, button");
    return typing || String(window.getSelection() || "") !== "";
  }

  function keepOpened(fresh) {
    const opened = [...main.querySelectorAll("details")].map((one) => one.open);
    [...fresh.querySelectorAll("details")].forEach((one, index) => { one.open = opened[index] || false; });
    const focused = [...main.querySelectorAll("a, summary, [tabindex]")].indexOf(document.activeElement);
    return focused;
  }

  async function refresh() {
    timer = null;
    if (busy || document.hidden || isInUse()) { schedule(); return; }
    busy = true;
    last = Date.now();
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("content");
      if (fresh && !isInUse() && fresh.innerHTML !== main.innerHTML) {
        const focused = keepOpened(fresh);
        const scrolls = [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
        main.replaceChildren(...fresh.childNodes);
        [...main.querySelectorAll(".scroll")].forEach((one, index) => { one.scrollLeft = scrolls[index] || 0; });
        if (focused >= 0) main.querySelectorAll("a, summary, [tabindex]")[focused]?.focus({ preventScroll: true });
      }
      const foot = page.querySelector(".foot time");
      if (foot) document.querySelector(".foot time")?.replaceWith(foot);
      note.textContent = "live";
    } catch {
      note.textContent = "not up to date: the server does not answer";
    } finally {
      busy = false;
    }
  }

  function schedule() {
    if (timer === null) timer = setTimeout(refresh, Math.max(0, last + EVERY_MS - Date.now()));
  }

  // A browser has six connections to a server: only the page in sight keeps one.
  let source = null;
  function follow() {
    if (document.hidden) { source?.close(); source = null; return; }
    if (source !== null) return;
    source = new EventSource(address);
    source.addEventListener("open", () => { note.textContent = "live"; });
    source.addEventListener("changed", schedule);
    source.addEventListener("error", () => { note.textContent = "not up to date: the server does not answer"; });
  }
  follow();
  document.addEventListener("visibilitychange", () => { follow(); if (!document.hidden) schedule(); });
  // A clock that runs out, such as that of a heartbeat, changes no file.
  setInterval(schedule, 60000);
})();
