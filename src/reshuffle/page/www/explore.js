// The page's own script: it sends the inputs with a serial number, and shows the answers to the newest question alone.
"use strict";

(function () {
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("reshuffle-theme"); } catch { return null; } })();
  const prefersDark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  // At once, before anything is painted.
  root.lang = "en";
  root.dataset.theme = stored || (prefersDark ? "dark" : "light");

  let serial = 0;
  let uploadRoute = null;
  let largest = 0;
  let connected = false;
  const answered = {};

  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  const byId = (id) => document.getElementById(id);
  const inputs = () => all("[data-key]");
  const activeTab = () => document.querySelector('[role="tab"][aria-selected="true"]').dataset.tab;
  const answerOf = (tab) => byId("answer-" + tab);

  function textOf(input) {
    if (input.type === "checkbox") return input.checked ? "yes" : "no";
    if (input.type === "file") return "";
    return input.value;
  }

  function mirror(input) {
    if (input.type !== "range") return;
    const shown = input.closest(".field").querySelector("output");
    // Steps are added up by the browser, with rounding: 0.30000000000000004.
    shown.textContent = String(parseFloat(parseFloat(input.value).toPrecision(12)));
    const share = (input.value - input.min) / (input.max - input.min);
    input.style.setProperty("--share", share);
  }

  // From here on, what is shown belongs to an older question, and is marked so.
  function begin(tab) {
    serial += 1;
    const answer = answerOf(tab);
    answer.dataset.asked = serial;
    answer.setAttribute("aria-busy", "true");
    answer.classList.add("busy");
  }

  // A question: all inputs as they are now.
  function ask() {
    if (!connected) return;
    const tab = activeTab();
    begin(tab);
    const texts = {};
    for (const input of inputs()) {
      if (input.type !== "file" && textOf(input) !== input.dataset.default) texts[input.dataset.key] = textOf(input);
    }
    Shiny.setInputValue("asked", { serial, tab, texts }, { priority: "event" });
  }

  function refuse(tab, sentence) {
    show({ serial, tab, sentence, refused: true, final: true, offers: {}, chosen: {} });
  }

  function show(message) {
    if (message.serial !== serial) return;  // A newer question has been asked: this answer is nobody's.
    const answer = answerOf(message.tab);
    const rest = answer.querySelector(".rest");
    const open = all("details[open]", rest).map((one) => one.id);
    const focused = rest.contains(document.activeElement) ? document.activeElement.id : "";
    answer.querySelector(".told").textContent = message.sentence;
    answer.querySelector(".setting").textContent = message.setting || "";
    answer.classList.toggle("refused", message.refused);
    rest.innerHTML = message.refused ? "" : message.html;
    for (const id of open) if (byId(id)) byId(id).open = true;
    if (focused && byId(focused)) byId(focused).focus();
    answer.dataset.answered = message.serial;
    answered[message.tab] = true;
    offer(message.offers, message.chosen);
    if (message.final) settle(message);
  }

  function settle(message) {
    if (message.serial !== serial) return;
    const answer = answerOf(message.tab);
    answer.classList.remove("busy");
    answer.setAttribute("aria-busy", "false");
    answer.dataset.settled = message.serial;
  }

  // Names of columns, as text: they may look like markup.
  function offer(offers, choices) {
    for (const [key, names] of Object.entries(offers)) {
      const input = byId(key);
      if (!input) continue;
      if (input.tagName === "SELECT") {
        const chosen = choices[key];
        const others = names.includes(chosen) ? [] : [chosen];
        // What was chosen for want of a choice stays the default, and no part of the address.
        const value = input.value === "" ? "" : chosen;
        input.replaceChildren(...others.concat(names).map(
          (name) => new Option(name, name === chosen ? value : name, false, name === chosen)));
        continue;
      }
      const chosen = new Set(input.value.split("\n").filter((name) => names.includes(name)));
      const boxes = byId(key + ".boxes");
      boxes.replaceChildren(...names.map((name, place) => {
        const line = document.createElement("div");
        const box = document.createElement("input");
        const label = document.createElement("label");
        box.type = "checkbox";
        box.id = key + "." + place;
        box.dataset.column = name;
        box.checked = chosen.has(name);
        label.htmlFor = box.id;
        label.textContent = name;
        line.append(box, label);
        return line;
      }));
    }
  }

  function choose(tab, { focus = true } = {}) {
    for (const button of all('[role="tab"]')) {
      const chosen = button.dataset.tab === tab;
      button.setAttribute("aria-selected", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      byId("panel-" + button.dataset.tab).hidden = !chosen;
      if (chosen && focus) button.focus();
    }
    ask();
  }

  function theme(name) {
    root.dataset.theme = name;
    const button = byId("theme");
    button.setAttribute("aria-pressed", String(name === "dark"));
    try { localStorage.setItem("reshuffle-theme", name); } catch { /* private windows have no storage */ }
  }

  async function send(input) {
    const file = input.files[0];
    const tab = input.dataset.key.split(".")[0];
    if (!file) return;
    begin(tab);  // Whatever is on its way belongs to the data before.
    if (file.size > largest) {
      refuse(tab, `A file must have at most ${largest >> 20} MB, but ${file.name} has ${(file.size / 1048576).toFixed(1)} MB; `
        + "send a part of its rows.");
      return;
    }
    try {
      const response = await fetch(uploadRoute, {
        method: "POST", body: file, headers: { "X-File-Name": encodeURIComponent(file.name) },
      });
      const told = await response.json();
      if (told.refused) {
        refuse(tab, told.refused);
        return;
      }
    } catch {
      refuse(tab, "The file could not be sent; is the server still running?");
      return;
    }
    forget(tab);
    const source = byId(tab + ".source");
    if (source) source.value = "upload";
    ask();
  }

  // Columns of other data mean nothing for these.
  function forget(tab) {
    for (const input of inputs()) {
      if (!input.dataset.key.startsWith(tab + ".")) continue;
      if (byId(input.id + ".boxes")) {
        input.value = "";
        byId(input.id + ".boxes").replaceChildren();
      } else if (input.dataset.column !== undefined) {
        input.replaceChildren(new Option("the last column", "", true, true));
      }
    }
  }

  function changed(event) {
    const input = event.target;
    if (input.dataset.column !== undefined && input.type === "checkbox") {
      const kept = document.getElementById(input.id.replace(/\.\d+$/, ""));
      const boxes = all("input", byId(kept.id + ".boxes"));
      kept.value = boxes.filter((box) => box.checked).map((box) => box.dataset.column).join("\n");
      ask();
    } else if (input.dataset.key) {
      mirror(input);
      if (input.type === "file") {
        if (event.type === "change") send(input);
        return;
      }
      if (event.type === "change" && input.type === "range") return;  // "input" has told it already.
      if (input.dataset.key.endsWith(".source")) forget(input.dataset.key.split(".")[0]);
      ask();
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    theme(root.dataset.theme);
    inputs().forEach(mirror);
    document.addEventListener("input", changed);
    document.addEventListener("change", (event) => { if (event.target.type === "file") changed(event); });
    document.addEventListener("submit", (event) => event.preventDefault());
    byId("theme").addEventListener("click", () => theme(root.dataset.theme === "dark" ? "light" : "dark"));
    document.addEventListener("click", async (event) => {
      const tab = event.target.closest('[role="tab"]');
      if (tab) choose(tab.dataset.tab);
      const copy = event.target.closest(".copy");
      if (copy) {
        try {
          await navigator.clipboard.writeText(byId(copy.dataset.copies).textContent);
          copy.textContent = "Copied";
        } catch {
          const range = document.createRange();
          range.selectNodeContents(byId(copy.dataset.copies));
          getSelection().removeAllRanges();
          getSelection().addRange(range);
          copy.textContent = "Selected: press Ctrl-C";
        }
      }
    });
    document.querySelector('[role="tablist"]').addEventListener("keydown", (event) => {
      const tabs = all('[role="tab"]').map((one) => one.dataset.tab);
      const place = tabs.indexOf(activeTab());
      const next = { ArrowRight: place + 1, ArrowLeft: place - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      choose(tabs[next % tabs.length]);
    });

    Shiny.addCustomMessageHandler("answer", show);
    Shiny.addCustomMessageHandler("done", settle);
    Shiny.addCustomMessageHandler("address", (message) => {
      if (message.serial === serial) history.replaceState(null, "", "?" + message.query);
    });
    Shiny.addCustomMessageHandler("welcome", (message) => {
      uploadRoute = message.upload;
      largest = message.largest;
      connected = true;
      root.dataset.ready = "yes";
      ask();
    });
    window.jQuery(document).on("shiny:disconnected", () => {
      connected = false;
      const told = byId("complaints");
      told.hidden = false;
      told.textContent = "The server has ended. Start it again with: reshuffle explore";
    });
  });
})();
