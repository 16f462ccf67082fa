// The page's own script: a binding for sliders, the tabs, answers as they come, and links that bring inputs back.
"use strict";

(function ($) {
  const root = document.documentElement;
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);
  const activeTab = () => document.querySelector('[role="tab"][aria-selected="true"]').dataset.tab;
  const charts = {};
  let count = 0;
  let timer = null;

  const stored = (() => { try { return localStorage.getItem("reshuffle-theme"); } catch { return null; } })();
  root.lang = "en";
  // At once, before anything is painted.
  root.dataset.theme = stored || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  function theme(name) {
    root.dataset.theme = name;
    byId("theme").setAttribute("aria-pressed", String(name === "dark"));
    try { localStorage.setItem("reshuffle-theme", name); } catch { /* private windows have no storage */ }
  }

  function mirror(input) {
    // Steps are added up by the browser, with rounding: 0.30000000000000004.
    input.closest(".field").querySelector("output").textContent = String(parseFloat(parseFloat(input.value).toPrecision(12)));
  }

  // Some time after the last change the address follows.
  function settle(isBack) {
    clearTimeout(timer);
    root.dataset.pending = "yes";
    timer = setTimeout(() => Shiny.setInputValue("settled", { count: count += 1, back: Boolean(isBack) }), 400);
  }

  function choose(tab, isBack) {
    for (const button of all('[role="tab"]')) {
      const isChosen = button.dataset.tab === tab;
      button.setAttribute("aria-selected", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
      byId("panel-" + button.dataset.tab).hidden = !isChosen;
    }
    Shiny.setInputValue("tab", tab);
    settle(isBack);
  }

  function showCharts(panel, message) {
    const given = message.charts.map((spec) => `${message.tab}-${spec.name}`);
    message.charts.forEach((spec, place) => {
      const id = given[place];
      const parent = panel.querySelector([".lead-chart", ".charts", ".more"][place]);
      charts[id] ??= new ReshuffleChart(parent, message.tab, spec.name);
      const chart = charts[id];
      if (place > 0) parent.append(chart.figure);
      chart.isOutdated = false;
      chart.figure.classList.remove("stale");
      chart.show(spec, message.setting);
    });
    for (const figure of all(":is(.charts, .more) figure", panel)) {
      if (given.includes(figure.id)) continue;
      figure.classList.toggle("stale", charts[figure.id].isOutdated);
      if (message.final) { figure.remove(); delete charts[figure.id]; }
    }
  }

  function show(message) {
    const panel = byId("panel-" + message.tab);
    const [sentence, note, rest] = [".sentence", ".note", ".rest"].map((one) => panel.querySelector(one));
    const isKept = message.refused && message.late && panel.dataset.charts > 0;
    for (const [id, offer] of Object.entries(message.offers)) {
      const binding = $(byId(id)).data("shiny-input-binding");
      // With the value of this moment, which may be newer than the question.
      binding.receiveMessage(byId(id), { ...offer, value: binding.getValue(byId(id)) });
    }
    if (!isKept) {
      sentence.textContent = message.sentence;
      panel.querySelector(".setting").textContent = message.setting;
    }
    note.textContent = isKept ? `What you see is a first answer. ${message.sentence}` : message.note;
    note.hidden = !note.textContent;
    panel.classList.toggle("refused", message.refused && !isKept);
    if (!message.refused) {
      panel.dataset.charts = message.charts.length;
      const open = all("details[open]", rest).map((one) => one.id);
      const focused = rest.contains(document.activeElement) ? document.activeElement.id : "";
      rest.innerHTML = message.html;
      for (const id of open) if (byId(id)) byId(id).open = true;
      if (focused && byId(focused)) byId(focused).focus();
      showCharts(panel, message);
    }
    if (message.final) setBusy(message.tab, false);
  }

  const setBusy = (tab, isBusy) => byId("panel-" + tab).setAttribute("aria-busy", String(isBusy));

  // Columns of other data mean nothing for these.
  function forgetColumns() {
    $("#data_leave_out input, #data_categories input").prop("checked", false).trigger("change");
    $("#data_target").empty().append(new Option("the last column", "")).trigger("change");
  }

  async function copy(button, text) {
    const words = button.dataset.words ??= button.textContent;
    button.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not allowed");
    setTimeout(() => { button.textContent = words; }, 2000);
  }

  function alertOf(text) {
    byId("alert").textContent = text;
    byId("alert").hidden = !text;
  }

  class RangeBinding extends Shiny.InputBinding {
    find(scope) { return $(scope).find(".inputs input[type=range]"); }
    getValue(input) { return parseFloat(parseFloat(input.value).toPrecision(12)); }
    setValue(input, value) { input.value = value; mirror(input); }
    receiveMessage(input, message) { this.setValue(input, message.value); input.dispatchEvent(new Event("input", { bubbles: true })); }
    subscribe(input, callback) { $(input).on("input.range", () => callback(true)); }
    unsubscribe(input) { $(input).off(".range"); }
    getRatePolicy() { return { policy: "throttle", delay: 40 }; }
  }
  Shiny.inputBindings.register(new RangeBinding(), "reshuffle.range");

  document.addEventListener("DOMContentLoaded", () => {
    theme(root.dataset.theme);
    all(".inputs input[type=range]").forEach(mirror);
    byId("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
    document.addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("input", ({ target }) => {
      const form = target.closest(".inputs");
      if (!form) return;
      settle();
      if (target.type === "range") mirror(target);
      for (const chart of Object.values(charts).filter((one) => form.parentElement.contains(one.figure))) {
        if (!target.id || chart.spec.handle !== target.id) continue;
        chart.placeHandle();
        const lead = charts[form.parentElement.querySelector(".lead-chart figure").id];
        if (chart.spec.morph && !chart.isOutdated) lead.interpolate(chart.spec.morph, Number(target.value));
      }
    });
    document.addEventListener("change", (event) => {
      const { target } = event, file = target.files?.[0];
      if (file && file.size > target.form.dataset.largest) {
        event.stopImmediatePropagation();
        const [size, largest] = [file.size, target.form.dataset.largest].map((one) => parseFloat((one / 1048576).toFixed(1)));
        alertOf(`A file must have at most ${largest} MB, but ${file.name} has ${size} MB; send a part of its rows.`);
        target.value = "";
      } else if (file) {
        alertOf("");
        forgetColumns();
        $("#data_source").val("upload").trigger("change");
      } else if (target.id === "data_source") forgetColumns();
    }, true);
    document.addEventListener("click", (event) => {
      const { target } = event;
      const tab = target.closest('[role="tab"]');
      if (tab) choose(tab.dataset.tab);
      const link = target.closest(".inputs a");
      if (link) {
        event.preventDefault();
        Shiny.setInputValue("example", link.textContent, { priority: "event" });
      }
      if (target.matches(".stop")) Shiny.setInputValue("stop", performance.now());
      if (target.matches(".copy")) copy(target, byId(target.dataset.copies).textContent);
      if (target.matches(".copy-link")) copy(target, location.href);
    });
    document.querySelector('[role="tablist"]').addEventListener("keydown", (event) => {
      const tabs = all('[role="tab"]');
      const place = tabs.findIndex((one) => one.dataset.tab === activeTab());
      const next = { ArrowRight: place + 1, ArrowLeft: place - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      choose(tabs[next % tabs.length].dataset.tab);
      tabs[next % tabs.length].focus();
    });
    window.addEventListener("popstate", () => choose(JSON.parse(new URLSearchParams(location.search).get("tab")) ?? all('[role="tab"]')[0].dataset.tab, true));

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
})(window.jQuery);
