// The page's own script: a binding for sliders, the tabs, answers as they come, and links that bring inputs back.
"use strict";

const root = document.documentElement;
const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
const byId = (id) => document.getElementById(id);
const tabs = () => all('[role="tab"]');
const activeTab = () => tabs().find((one) => one.ariaSelected === "true").dataset.tab;
// Steps are added up by the browser, with rounding: 0.30000000000000004.
const rounded = (input) => parseFloat(parseFloat(input.value).toPrecision(12));
const mirror = (input) => { input.closest(".field").querySelector("output").textContent = rounded(input); };
const charts = {};
let count = 0, timer = null;

// At once, before anything is painted. Private windows have no storage.
try { root.dataset.theme = localStorage.getItem("reshuffle-theme") ?? ""; } catch { /* nothing is stored */ }
root.dataset.theme ||= matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
root.lang = "en";

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

// An answer, or the parts of it that are new.
function show(message) {
  const panel = byId("panel-" + message.tab);
  for (const part of ["sentence", "setting", "note"]) if (part in message) panel.querySelector("." + part).textContent = message[part];
  for (const [id, offer] of Object.entries(message.offers ?? {})) {
    const binding = $(byId(id)).data("shiny-input-binding");
    // With the value of this moment, which may be newer than the question.
    binding.receiveMessage(byId(id), { ...offer, value: binding.getValue(byId(id)) });
  }
  if ("refused" in message) panel.classList.toggle("refused", message.refused);
  if (message.charts) {
    panel.querySelector(".rest").innerHTML = message.html;
    for (const [id, text] of Object.entries(message.programs)) byId(id).textContent = text;
    for (const figure of all("figure", panel)) {
      const spec = message.charts.find((one) => figure.id === `${message.tab}-${one.name}`);
      if (spec || message.final) figure.hidden = !spec;
      if (spec) (charts[figure.id] ??= new Chart(figure)).show(spec, message.setting);
      figure.classList.toggle("stale", Boolean(charts[figure.id]?.isOutdated));
    }
  }
  panel.ariaBusy = String(!message.final);
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

class RangeBinding extends Shiny.InputBinding {
  find(scope) { return $(scope).find(".inputs input[type=range]"); }
  getValue(input) { return rounded(input); }
  receiveMessage(input, message) { input.value = message.value; input.dispatchEvent(new Event("input", { bubbles: true })); }
  subscribe(input, callback) { $(input).on("input.range", () => callback(true)); }
  getRatePolicy() { return { policy: "throttle", delay: 40 }; }
}
Shiny.inputBindings.register(new RangeBinding(), "reshuffle.range");

// By a person or by the server: the chart with the handle of this input follows at once, all others with the answer.
function onInputChanged({ name }) {
  const input = byId(name), panel = input?.closest(".panel");
  if (!panel) return;
  settle();
  if (input.type === "range") mirror(input);
  const shown = all("figure", panel).flatMap((figure) => charts[figure.id] ?? []);
  for (const chart of shown.filter((one) => one.spec.handle !== name)) chart.isOutdated = true;
  for (const chart of shown.filter((one) => one.spec.handle === name)) {
    chart.placeHandle();
    if (chart.spec.morph && !chart.isOutdated) shown[0].interpolate(chart.spec.morph, rounded(input));
  }
}

function onChange(event) {
  const { target } = event, file = target.files?.[0];
  if (file && file.size > target.form.dataset.largest) {
    event.stopImmediatePropagation();
    const [size, largest] = [file.size, target.form.dataset.largest].map((one) => parseFloat((one / 1048576).toFixed(1)));
    byId("alert").textContent = `A file must have at most ${largest} MB, but ${file.name} has ${size} MB; send a part of its rows.`;
    target.value = "";
  } else if (file || target.id === "data_source") {
    forgetColumns();
    if (!file) return;
    byId("alert").textContent = "";
    $("#data_source").val("upload").trigger("change");
  }
}

function onClick(event) {
  const { target } = event, tab = target.closest('[role="tab"]'), link = target.closest(".inputs a");
  if (tab) choose(tab.dataset.tab);
  if (link) {
    event.preventDefault();
    Shiny.setInputValue("example", link.textContent, { priority: "event" });
  }
  if (target.matches("#theme")) {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("reshuffle-theme", root.dataset.theme); } catch { /* nothing is stored */ }
  }
  if (target.matches(".stop")) Shiny.setInputValue("stop", performance.now());
  if (target.matches(".copy")) copy(target, target.nextElementSibling.textContent);
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

document.addEventListener("click", onClick);
document.addEventListener("keydown", onKey);
document.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("change", onChange, true);
window.addEventListener("popstate", () => choose(JSON.parse(new URLSearchParams(location.search).get("tab")) ?? tabs()[0].dataset.tab, true));
Shiny.addCustomMessageHandler("answer", show);
Shiny.addCustomMessageHandler("settled", (last) => { if (last === count) root.dataset.pending = "no"; });
$(document).on("shiny:inputchanged", onInputChanged);
$(document).on("shiny:connected", () => {
  Shiny.setInputValue("tab", activeTab());
  settle();
  root.dataset.ready = "yes";
});
// All inputs are in the address: a reload brings everything back but files.
$(document).on("shiny:disconnected", () => {
  byId("alert").textContent = `The server has ended. Start it again with: reshuffle explore --port ${location.port}`;
  setInterval(() => fetch(location.pathname).then((response) => { if (response.ok) location.reload(); }).catch(() => {}), 1000);
});
