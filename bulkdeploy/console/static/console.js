// What a page does by itself: it tells how long ago moments were, asks for its live parts, and copies a line.
(() => {
  "use strict";
  const CALM = 2000, LONGEST = 60000;
  let pause = CALM, timer = 0, asked = 0;

  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  const words = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "always", style: "short" });
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  function tellTimes() {
    for (const element of document.querySelectorAll("time[datetime]")) {
      const moment = new Date(element.dateTime);
      const seconds = Math.min(0, Math.round((moment - Date.now()) / 1000));
      const [unit, length] = units.find(([, size]) => -seconds >= size) || units[3];
      const text = words.format(Math.trunc(seconds / length) || 0, unit);
      if (element.textContent !== text) element.textContent = text;
      if (!element.title) element.title = exact.format(moment);
    }
  }

  // All live parts of a page ask at one beat; nothing is asked while nobody looks.
  const live = () => document.querySelectorAll("[data-live]");
  function next() {
    clearTimeout(timer);
    if (!document.hidden && live().length) timer = setTimeout(beat, pause);
  }
  function beat() {
    clearTimeout(timer);
    if (document.hidden) return;
    const due = [...live()].filter((element) => Date.now() - (element.lastBeat || 0) >= 1000 * (element.dataset.every || 0));
    asked = due.length;
    for (const element of due) {
      element.lastBeat = Date.now();
      htmx.trigger(element, "beat");
    }
    if (!asked) return next();
    timer = setTimeout(beat, LONGEST + 5000); // whatever became of these
  }
  function answered(good) {
    pause = good ? CALM : Math.min(LONGEST, pause * 2);
    asked -= 1;
    if (asked <= 0) next();
  }
  // What cannot be answered now changes nothing on the page; a strip says so until something is answered.
  document.addEventListener("htmx:finally:request", (event) => {
    const context = event.detail.ctx;
    const status = context.response ? context.response.status : 0;
    const good = status > 0 && status < 500 && status !== 429;
    const trouble = document.getElementById("trouble");
    if (trouble) {
      trouble.hidden = good;
      if (!good && !trouble.textContent) trouble.textContent = document.body.dataset.offline;
    }
    if (context.sourceElement.closest("[data-live]")) answered(good);
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : wake()));
  window.addEventListener("online", wake);
  window.addEventListener("pageshow", (event) => event.persisted && wake());
  function wake() {
    pause = CALM;
    tellTimes();
    if (live().length) beat();
  }

  document.addEventListener("htmx:after:swap", tellTimes);
  setInterval(() => document.hidden || tellTimes(), 10000);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      const before = button.textContent;
      button.textContent = button.dataset.copied;
      setTimeout(() => { button.textContent = before; }, 2000);
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-all]")) {
      for (const box of document.querySelectorAll(`input[name="${event.target.dataset.all}"]`)) box.checked = event.target.checked;
    }
    const form = event.target.closest("form");
    if (event.target.matches("[data-submits]")) form.requestSubmit();
    count(form);
  });
  // How many rows are chosen, beside what can be done to them.
  function count(form) {
    const counter = form && form.querySelector("[data-chosen]");
    if (!counter) return;
    const chosen = form.querySelectorAll("input[data-row]:checked").length;
    const everything = form.querySelector("[data-everything]:checked");
    counter.textContent = everything ? everything.closest("label").textContent.replace(/\D/g, "") : chosen;
    for (const button of form.querySelectorAll("[data-needs-rows]")) button.disabled = chosen === 0 && !everything;
  }
  document.addEventListener("click", (event) => {
    for (const open of document.querySelectorAll("details.account[open], details.columns[open], details.pages[open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    const asked = (event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing);
    const search = document.querySelector("[data-search]");
    if (asked && search) {
      event.preventDefault();
      search.focus();
    }
    if (event.key !== "Escape") return;
    for (const open of document.querySelectorAll("details.account[open], details.columns[open], details.pages[open]")) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    tellTimes();
    for (const form of document.querySelectorAll("form")) count(form);
    next();
  });
})();
