// The page's own script: a binding for sliders, the tabs, answers as they come, and links that bring inputs back.
"use strict";

const root = document.documentElement;
const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
const byId = (id) => document.getElementById(id);
const tabs = () => all('[role="tab"]');
const activeTab = () => tabs().find((one) => one.ariaSelected === "true").dataset.tab;
const setBusy = (tab, isBusy) => { byId("panel-" + tab).ariaBusy = String(isBusy); };
// Steps are added up by the browser, with rounding: 0.30000000000000004.
const rounded = (input) => parseFloat(parseFloat(input.value).toPrecision(12));
const mirror = (input) => { input.closest(".field").querySelector("output").textContent = rounded(input); };
const charts = {};
let count = 0, timer = null;

// At once, before anything is painted. Private windows have no storage.
try { root.dataset.theme = localStorage.getItem("reshuffle-theme") ?? ""; } catch { /* nothing is stored */ }
root.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
root.lang = "en";

function setTheme(name) {
  root.dataset.theme = name;
  byId("theme").ariaPressed = String(name === "dark");
  try { localStorage.setItem("reshuffle-theme", name); } catch { /* nothing is stored */ }
}

// Some time after the last change the address follows.
function settle(isBack) {
  clearTimeout(timer);
  root.dataset.pending = "yes";
  timer = setTimeout(() => Shiny.setInputValue("settled", { count: count += 1, back: Boolean(isBack) }), 400);
}

function choose(tab, isBack) {
  for (const button of tabs()) {
    const isChosen = button.dataset.tab === tab;
    button.ariaSelected = String(isChosen);
    button.tabIndex = isChosen ? 0 : -1;
    byId("panel-" + button.dataset.tab).hidden = !isChosen;
  }
  Shiny.setInputValue("tab", tab);
  settle(isBack);
}

function showCharts(panel, message) {
  const given = message.charts.map((spec) => `${message.tab}-${spec.name}`);
  message.charts.forEach((spec, place) => {
    const parent = panel.querySelector([".lead-chart", ".charts", ".more"][place]);
    const chart = charts[given[place]] ??= new Chart(parent, message.tab, spec.name);
    if (place > 0) parent.append(chart.figure);
    chart.isOutdated = false;
    chart.figure.classList.remove("stale");
    chart.show(spec, message.setting);
  });
  for (const figure of all(":is(.charts, .more) figure", panel).filter((one) => !given.includes(one.id))) {
    figure.classList.toggle("stale", charts[figure.id].isOutdated);
    if (message.final) { figure.remove(); delete charts[figure.id]; }
  }
}

function show(message) {
  const panel = byId("panel-" + message.tab);
  const [sentence, setting, note, rest] = [".sentence", ".setting", ".note", ".rest"].map((one) => panel.querySelector(one));
  const isKept = message.refused && message.late && panel.dataset.charts > 0;
  for (const [id, offer] of Object.entries(message.offers)) {
    const binding = $(byId(id)).data("shiny-input-binding");
    // With the value of this moment, which may be newer than the question.
    binding.receiveMessage(byId(id), { ...offer, value: binding.getValue(byId(id)) });
  }
  if (!isKept) [sentence.textContent, setting.textContent] = [message.sentence, message.setting];
  note.textContent = isKept ? `What you see is a first answer. ${message.sentence}` : message.note;
  note.hidden = !note.textContent;
  panel.classList.toggle("refused", message.refused && !isKept);
  if (!message.refused) {
    panel.dataset.charts = message.charts.length;
    const open = all("details[open]", rest).map((one) => one.id);
    const focused = rest.contains(document.activeElement) ? document.activeElement.id : "";
    rest.innerHTML = message.html;
    for (const id of open) if (byId(id)) byId(id).open = true;
    if (focused) byId(focused)?.focus();
    showCharts(panel, message);
  }
  if (message.final) setBusy(message.tab, false);
}

// Columns of other data mean nothing for these.
function forgetColumns() {
  $("#data_leave_out input, #data_categories input").prop("checked", false).trigger("change");
  $("#data_target").empty().append(new Option("the last column", "")).trigger("change");
}

async function copy(button, text) {
  const words = button.dataset.words ??= button.textContent;
  // A link of inputs that were just moved waits for the address, which follows them.
  while (!text && root.dataset.pending === "yes") await new Promise((done) => { setTimeout(done, 50); });
  button.textContent = await navigator.clipboard.writeText(text ?? location.href).then(() => "Copied", () => "Not allowed");
  setTimeout(() => { button.textContent = words; }, 2000);
}

function alertOf(text) {
  byId("alert").textContent = text;
  byId("alert").hidden = !text;
}

class RangeBinding extends Shiny.InputBinding {
  find(scope) { return $(scope).find(".inputs input[type=range]"); }
  getValue(input) { return rounded(input); }
  receiveMessage(input, message) { input.value = message.value; input.dispatchEvent(new Event("input", { bubbles: true })); }
  subscribe(input, callback) { $(input).on("input.range", () => callback(true)); }
  getRatePolicy() { return { policy: "throttle", delay: 40 }; }
}
Shiny.inputBindings.register(new RangeBinding(), "reshuffle.range");

function onInput({ target }) {
  const panel = target.closest(".inputs")?.parentElement;
  if (!panel) return;
  settle();
  if (target.type === "range") mirror(target);
  for (const chart of Object.values(charts).filter((one) => target.id && one.spec.handle === target.id)) {
    chart.placeHandle();
    if (chart.spec.morph && !chart.isOutdated) charts[panel.querySelector(".lead-chart figure").id].interpolate(chart.spec.morph, Number(target.value));
  }
}

function onChange(event) {
  const { target } = event, file = target.files?.[0];
  if (file && file.size > target.form.dataset.largest) {
    event.stopImmediatePropagation();
    const [size, largest] = [file.size, target.form.dataset.largest].map((one) => parseFloat((one / 1048576).toFixed(1)));
    alertOf(`A file must have at most ${largest} MB, but ${file.name} has ${size} MB; send a part of its rows.`);
    target.value = "";
  } else if (file || target.id === "data_source") {
    forgetColumns();
    if (file) { alertOf(""); $("#data_source").val("upload").trigger("change"); }
  }
}

function onClick(event) {
  const { target } = event, tab = target.closest('[role="tab"]'), link = target.closest(".inputs a");
  if (tab) choose(tab.dataset.tab);
  if (link) {
    event.preventDefault();
    Shiny.setInputValue("example", link.textContent, { priority: "event" });
  }
  if (target.matches("#theme")) setTheme(root.dataset.theme === "dark" ? "light" : "dark");
  if (target.matches(".stop")) Shiny.setInputValue("stop", performance.now());
  if (target.matches(".copy")) copy(target, byId(target.dataset.copies).textContent);
  if (target.matches(".copy-link")) copy(target);
}

function onKey(event) {
  const place = tabs().indexOf(event.target), length = tabs().length;
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1 + length, Home: 0, End: length - 1 }[event.key];
  if (place < 0 || next === undefined) return;
  event.preventDefault();
  tabs()[next % length].click();
  tabs()[next % length].focus();
}

document.addEventListener("DOMContentLoaded", () => {
  setTheme(root.dataset.theme);
  all(".inputs input[type=range]").forEach(mirror);
  for (const [kind, act] of Object.entries({ input: onInput, click: onClick, keydown: onKey })) document.addEventListener(kind, act);
  document.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("change", onChange, true);
  window.addEventListener("popstate", () => choose(JSON.parse(new URLSearchParams(location.search).get("tab")) ?? tabs()[0].dataset.tab, true));

  Shiny.addCustomMessageHandler("busy", ({ tab }) => setBusy(tab, true));
  Shiny.addCustomMessageHandler("settled", (last) => { if (last === count) root.dataset.pending = "no"; });
  Shiny.addCustomMessageHandler("answer", show);
  Shiny.addCustomMessageHandler("stopped", ({ tab }) => {
    Object.assign(byId("panel-" + tab).querySelector(".note"), { hidden: false, textContent: "Stopped. Change an input to ask again." });
    setBusy(tab, false);
  });
  // By a person or by the server.
  $(document).on("shiny:inputchanged", ({ name }) => {
    if (!byId(name)) return;
    settle();
    for (const chart of Object.values(charts)) if (name.startsWith(chart.tab)) chart.isOutdated ||= chart.spec.handle !== name;
  });
  $(document).on("shiny:connected", () => {
    Shiny.setInputValue("tab", activeTab());
    settle();
    root.dataset.ready = "yes";
  });
  // All inputs are in the address: a reload brings everything back but files.
  $(document).on("shiny:disconnected", () => {
    alertOf(`The server has ended. Start it again with: reshuffle explore --port ${location.port}`);
    setInterval(() => fetch(location.pathname).then((response) => { if (response.ok) location.reload(); }).catch(() => {}), 1000);
  });
});
