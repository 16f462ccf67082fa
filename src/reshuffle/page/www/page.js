// The page's own script: a binding for sliders, the tabs, answers as they come, and links that bring inputs back.
"use strict";

(function () {
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
    input.style.setProperty("--share", (input.value - input.min) / (input.max - input.min));
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

  function set(input, value) {
    if (input.classList.contains("shiny-input-checkboxgroup")) {
      for (const box of all("input", input)) box.checked = value.includes(box.value);
    } else if (input.type === "checkbox") {
      input.checked = value;
    } else {
      if (input.tagName === "SELECT" && !all("option", input).some((one) => one.value === value)) input.append(new Option(value, value));
      input.value = value;
    }
    input.dispatchEvent(new Event(input.type === "range" ? "input" : "change", { bubbles: true }));
  }

  // The inputs of one tab, or of all, as an address has them.
  function apply(query, only, isBack) {
    const values = {};
    for (const [name, text] of new URLSearchParams(query)) if (name !== "_inputs_") values[name] = JSON.parse(text);
    const tab = values.tab || all('[role="tab"]')[0].dataset.tab;
    for (const panel of only ? [byId("panel-" + tab)] : all(".panel")) {
      const prefix = panel.id.replace("panel-", "") + "_";
      for (const [name, start] of Object.entries(JSON.parse(panel.querySelector("form").dataset.defaults))) {
        const input = byId(prefix + name);
        if (input.type !== "file") set(input, values[prefix + name] ?? start);
      }
    }
    choose(tab, isBack);
  }

  // What else the panel's inputs are than one of them: a chart along that one is still right if the others are.
  const others = (panel, name) => all(".field input, .field select, .field textarea", panel)
    .filter((input) => input.id !== name && input.type !== "file").map((input) => (input.type === "checkbox" ? input.checked : input.value)).join("\n");

  function showCharts(panel, message) {
    const given = message.charts.map((spec) => `${message.tab}-${spec.name}`);
    message.charts.forEach((spec, place) => {
      const id = given[place];
      const parent = panel.querySelector([".lead-chart", ".charts", ".more"][place]);
      charts[id] ??= new ReshuffleChart(parent, message.tab, spec.name);
      const chart = charts[id];
      chart.others = others(panel, spec.handle);
      if (place > 0) parent.append(chart.figure);
      chart.figure.classList.remove("stale");
      chart.show(spec, message.setting);
    });
    for (const figure of all(":is(.charts, .more) figure", panel)) {
      const chart = charts[figure.id];
      if (given.includes(figure.id)) continue;
      if (message.final) { figure.remove(); delete charts[figure.id]; } else figure.classList.toggle("stale", chart.others !== others(panel, chart.spec.handle));
    }
  }

  function show(message) {
    const panel = byId("panel-" + message.tab);
    const [sentence, note, rest] = [".sentence", ".note", ".rest"].map((one) => panel.querySelector(one));
    const isKept = message.refused && message.late && panel.dataset.charts > 0;
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
    offer(message.offers, message.chosen);
    if (message.final) finish(panel);
  }

  function finish(panel) {
    panel.classList.remove("busy");
    panel.setAttribute("aria-busy", "false");
  }

  // Names of columns, as text: they may look like markup.
  function offer(offers, choices) {
    for (const [key, names] of Object.entries(offers)) {
      const input = byId(key);
      if (input.tagName === "SELECT") {
        const chosen = choices[key];
        // What was chosen for want of a choice stays the default, and no part of the address.
        const value = input.value === "" ? "" : chosen;
        input.replaceChildren(...(names.includes(chosen) ? [] : [chosen]).concat(names).map(
          (name) => new Option(name, name === chosen ? value : name, false, name === chosen)));
        continue;
      }
      const ticked = all("input:checked", input).map((box) => box.value);
      input.querySelector(".shiny-options-group").replaceChildren(...names.map((name) => {
        const label = document.createElement("label");
        const box = Object.assign(document.createElement("input"), { type: "checkbox", name: key, value: name, checked: ticked.includes(name) });
        label.append(box, Object.assign(document.createElement("span"), { textContent: name }));
        return label;
      }));
    }
  }

  // Columns of other data mean nothing for these.
  function forget() {
    set(byId("data_leave_out"), []);
    set(byId("data_categories"), []);
    byId("data_target").replaceChildren(new Option("the last column", "", true, true));
    set(byId("data_target"), "");
  }

  async function copy(button, text) {
    const before = button.dataset.words ??= button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl-C";
      const field = Object.assign(document.createElement("textarea"), { value: text, className: "unseen" });
      button.after(field);
      field.select();
      field.addEventListener("blur", () => field.remove());
    }
    setTimeout(() => { button.textContent = before; }, 2000);
  }

  function alertOf(text) {
    byId("alert").textContent = text;
    byId("alert").hidden = !text;
  }

  class RangeBinding extends Shiny.InputBinding {
    find(scope) { return window.jQuery(scope).find(".inputs input[type=range]"); }
    getValue(input) { return parseFloat(parseFloat(input.value).toPrecision(12)); }
    setValue(input, value) { input.value = value; mirror(input); }
    subscribe(input, callback) { window.jQuery(input).on("input.range", () => callback(true)); }
    unsubscribe(input) { window.jQuery(input).off(".range"); }
    getRatePolicy() { return { policy: "throttle", delay: 40 }; }
  }
  Shiny.inputBindings.register(new RangeBinding(), "reshuffle.range");

  document.addEventListener("DOMContentLoaded", () => {
    theme(root.dataset.theme);
    all(".inputs input[type=range]").forEach(mirror);
    byId("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
    document.addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("input", ({ target }) => {
      if (!target.closest(".inputs")) return;
      if (target.type === "range") mirror(target);
      for (const chart of Object.values(charts)) {
        if (!target.id || chart.spec.handle !== target.id) continue;
        chart.placeHandle();
        const lead = charts[byId("panel-" + chart.tab).querySelector(".lead-chart figure").id];
        if (chart.spec.morph && !chart.figure.classList.contains("stale")) lead.interpolate(chart.spec.morph, Number(target.value));
      }
      settle();
    });
    document.addEventListener("change", (event) => {
      const { target } = event;
      if (target.type === "file" && target.files[0] && target.files[0].size > target.form.dataset.largest) {
        event.stopImmediatePropagation();
        const [size, largest] = [target.files[0].size, target.form.dataset.largest].map((one) => (one / 1048576).toFixed(1));
        alertOf(`A file must have at most ${parseFloat(largest)} MB, but ${target.files[0].name} has ${size} MB; send a part of its rows.`);
        target.value = "";
        return;
      }
      if (target.type === "file") {
        alertOf("");
        forget();
        set(byId("data_source"), "upload");
      } else if (target.id === "data_source" && event.isTrusted) forget();
      if (target.closest(".inputs")) settle();
    }, true);
    document.addEventListener("click", (event) => {
      const { target } = event;
      const tab = target.closest('[role="tab"]');
      if (tab) choose(tab.dataset.tab);
      const link = target.closest(".inputs a");
      if (link) {
        event.preventDefault();
        apply(link.search, true);
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
    window.addEventListener("popstate", () => apply(location.search, false, true));

    Shiny.addCustomMessageHandler("busy", (message) => {
      const panel = byId("panel-" + message.tab);
      panel.classList.add("busy");
      panel.setAttribute("aria-busy", "true");
    });
    Shiny.addCustomMessageHandler("settled", (last) => { if (last === count) root.dataset.pending = "no"; });
    Shiny.addCustomMessageHandler("answer", show);
    Shiny.addCustomMessageHandler("stopped", (message) => {
      const panel = byId("panel-" + message.tab);
      Object.assign(panel.querySelector(".note"), { hidden: false, textContent: "Stopped. Change an input to ask again." });
      finish(panel);
    });
    window.jQuery(document).on("shiny:connected", () => {
      Shiny.setInputValue("tab", activeTab());
      settle();
      root.dataset.ready = "yes";
    });
    // All inputs are in the address: a reload brings everything back but files.
    window.jQuery(document).on("shiny:disconnected", () => {
      alertOf(`The server has ended. Start it again with: reshuffle explore --port ${location.port}`);
      setInterval(() => fetch(location.pathname).then((response) => { if (response.ok) location.reload(); }).catch(() => {}), 1000);
    });
  });
})();
