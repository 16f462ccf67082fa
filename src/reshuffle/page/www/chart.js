// Charts as SVG, drawn at the width they have on the screen: axes, lines, bars, dots, arrows, a handle, values on hover.
"use strict";

(function () {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const colour = (name) => `var(--${name})`;
  const known = (value) => value !== null && Number.isFinite(value);
  const short = (value) => String(parseFloat(value.toPrecision(4)));

  function make(name, attributes, parent, text) {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    if (parent) parent.append(element);
    return element;
  }

  function html(name, attributes, parent, text) {
    const element = Object.assign(document.createElement(name), attributes);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  function ticks(low, high, isLog) {
    if (!isLog) {
      const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
      const found = [];
      for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-9); k += 1) found.push(parseFloat((k * step).toPrecision(12)));
      return found;
    }
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first) / 5));
    const found = [];
    for (let k = first; k <= last; k += every) found.push(10 ** k);
    if (last - first > 1) return found;
    return [1, 2, 5].flatMap((one) => [first - 1, first, last].map((k) => one * 10 ** k))
      .filter((one, place, all) => one >= low && one <= high && all.indexOf(one) === place);
  }

  // From values to pixels.
  function scale(axis, values, start, end) {
    const found = values.filter((value) => known(value) && (!axis.is_log || value > 0));
    let low = axis.low ?? Math.min(...found), high = axis.high ?? Math.max(...found);
    if (!(high > low)) [low, high] = [low - 0.5, low + 0.5];
    const bend = axis.is_log ? Math.log10 : (value) => value;
    const place = (value) => start + (bend(value) - bend(low)) / (bend(high) - bend(low)) * (end - start);
    const value = (pixel) => low + (pixel - start) / (end - start) * (high - low);
    return Object.assign(place, { low, high, value, ticks: ticks(low, high, axis.is_log) });
  }

  class Chart {
    constructor(parent, tab, name) {
      this.tab = tab;
      this.figure = html("figure", { id: `${tab}-${name}` }, parent);
      this.caption = html("figcaption", {}, this.figure);
      this.plot = html("div", { className: "plot" }, this.figure);
      this.svg = make("svg", { role: "img" }, this.plot);
      this.readout = html("p", { className: "readout" }, this.plot);
      this.readout.setAttribute("aria-hidden", "true");
      this.legend = html("p", { className: "legend" }, this.figure);
      this.legend.setAttribute("aria-hidden", "true");
      const tools = html("p", { className: "tools" }, this.figure);
      this.player = html("span", { className: "player", hidden: true }, tools);
      for (const kind of ["svg", "csv"]) {
        const button = html("button", { type: "button", id: `${tab}-${name}-${kind}` }, tools, `Save ${kind.toUpperCase()}`);
        this[`${kind}Of`] = html("span", { className: "unseen" }, button);
        button.addEventListener("click", () => this.save(kind));
      }
      this.plot.addEventListener("pointermove", (event) => this.hover(event));
      this.plot.addEventListener("pointerleave", () => this.hover(null));
      new ResizeObserver(() => this.draw()).observe(this.plot);
    }

    // The curve of the inputs before stays as a ghost; a drag has one ghost, that of its beginning.
    show(spec, setting) {
      const now = performance.now();
      if (this.spec && setting !== this.setting) {
        if (now - this.changed > 900) this.ghost = this.spec;
        this.changed = now;
      }
      this.changed ??= now;
      Object.assign(this, { spec, setting });
      this.caption.textContent = spec.title;
      this.svg.setAttribute("aria-label", spec.words);
      for (const kind of ["svg", "csv"]) this[`${kind}Of`].textContent = ` of: ${spec.title}`;
      this.legend.replaceChildren();
      for (const one of spec.series.filter((series) => series.label)) {
        const entry = html("span", {}, this.legend, one.label);
        entry.style.setProperty("--key", colour(one.colour));
        entry.className = one.kind === "line" && one.dash ? "dashed" : one.kind;
      }
      if (this.ghost) html("span", { className: "ghost" }, this.legend, "before");
      if (spec.frames.length) this.prepare();
      this.draw();
    }

    draw() {
      const { spec, svg } = this;
      const width = this.plot.clientWidth;
      if (!spec || width < 50) return;
      const height = width < 480 ? 210 : Math.max(230, Math.min(0.58 * width, 330));
      const names = spec.y.names, left = names.length ? 124 : 48;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("width", width);
      svg.setAttribute("height", height);
      svg.replaceChildren();
      make("rect", { width, height, fill: colour("card") }, svg);
      const drawn = spec.series.filter((one) => one.kind !== "hidden");
      const x = scale(spec.x, drawn.flatMap((one) => one.x), left, width - 14);
      const y = names.length ? scale({ low: -0.5, high: names.length - 0.5 }, [], 8, height - 38)
        : scale(spec.y, drawn.filter((one) => one.kind !== "arrows").flatMap((one) => one.y), height - 38, 24);
      Object.assign(this, { x, y, bottom: height - 38 });
      const text = { "font-size": 12, "font-family": "inherit", fill: colour("ink") };
      const faint = { stroke: colour("faint"), "stroke-width": 0.7 };
      for (const tick of names.length ? [] : y.ticks) {
        make("line", { x1: left, x2: width - 14, y1: y(tick), y2: y(tick), ...faint }, svg);
        make("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end", ...text }, svg, short(tick));
      }
      names.forEach((name, place) => {
        make("line", { x1: left, x2: width - 14, y1: y(place), y2: y(place), ...faint }, svg);
        make("text", { x: left - 8, y: y(place) + 4, "text-anchor": "end", ...text }, svg, name);
      });
      for (const tick of x.ticks) {
        make("line", { x1: x(tick), x2: x(tick), y1: this.bottom, y2: this.bottom + 4, stroke: colour("ink") }, svg);
        make("text", { x: x(tick), y: this.bottom + 17, "text-anchor": "middle", ...text }, svg, short(tick));
      }
      make("line", { x1: left, x2: width - 14, y1: this.bottom, y2: this.bottom, stroke: colour("ink") }, svg);
      make("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle", ...text }, svg, spec.x.label);
      make("text", { x: 2, y: 13, ...text }, svg, spec.y.label);
      const clip = make("clipPath", { id: `${this.figure.id}-clip` }, svg);
      make("rect", { x: left - 4, y: names.length ? 0 : 19, width: width - left - 6, height: this.bottom }, clip);
      const inside = make("g", { "clip-path": `url(#${clip.id})` }, svg);
      for (const [place, label] of spec.marks) {
        if (place < x.low || place > x.high) continue;
        make("line", { x1: x(place), x2: x(place), y1: 20, y2: this.bottom, stroke: colour("warn"), "stroke-dasharray": "5 3", "stroke-width": 1.4 }, inside);
        const anchor = x(place) > (left + width) / 2 ? "end" : "start";
        make("text", { ...text, x: x(place) + (anchor === "end" ? -5 : 5), y: 32, "text-anchor": anchor, fill: colour("warn") }, inside, label);
      }
      if (this.ghost && this.ghost.y.is_log === spec.y.is_log) {
        for (const one of this.ghost.series.slice(0, 1)) this.series({ ...one, colour: "grey", dash: "", width: 1.4 }, inside, 0.55);
      }
      this.layers = drawn.map((one) => this.series(one, inside, 1));
      this.line = make("line", { y1: 20, y2: this.bottom, stroke: colour("grey"), visibility: "hidden" }, svg);
      if (spec.handle) this.placeHandle();
      if (this.frame !== undefined && spec.frames.length) this.goTo(this.frame);
    }

    series(one, parent, opacity) {
      const { x, y, bottom } = this;
      const group = make("g", { opacity }, parent);
      const style = { fill: "none", stroke: colour(one.colour), "stroke-width": one.width, "stroke-dasharray": one.dash, "stroke-linejoin": "round" };
      const points = one.x.map((value, place) => [value, one.y[place]]);
      if (one.kind === "line") {
        let path = "", isOpen = false;
        for (const [a, b] of points) {
          const isFine = known(a) && known(b) && (!this.spec.y.is_log || b > 0) && (!this.spec.x.is_log || a > 0);
          // Far outside, coordinates are cut: the clip hides them, and huge numbers upset browsers.
          if (isFine) path += `${isOpen ? "L" : "M"}${x(a).toFixed(1)} ${Math.max(-999, Math.min(2999, y(b))).toFixed(1)}`;
          isOpen = isFine;
        }
        make("path", { d: path, ...style }, group);
      } else if (one.kind === "bars") {
        one.y.forEach((b, place) => make("rect", {
          x: x(one.x[place]), width: Math.max(0, x(one.x[place + 1]) - x(one.x[place])),
          y: y(Math.min(b, y.high)), height: bottom - y(Math.min(b, y.high)), fill: colour(one.colour), opacity: 0.4,
        }, group));
      } else if (one.kind === "arrows") {
        for (const [a, b] of points) {
          make("path", { d: `M${x(a)} ${bottom}V42m-4 8l4 -8l4 8`, ...style }, group);
          make("text", { x: x(a) + 6, y: 38, "font-size": 12, fill: colour(one.colour) }, group, short(b));
        }
      } else {
        for (const [a, b] of points.filter((pair) => known(pair[0]) && known(pair[1]))) {
          make("circle", { cx: x(a), cy: y(b), r: one.width < 3 ? one.width : 5, fill: colour(one.colour), opacity: one.width < 3 ? 0.55 : 1 }, group);
        }
      }
      return group;
    }

    // Heights between those of two positions of the handle, until the server knows better.
    interpolate([positions, heights], value) {
      const next = positions.findIndex((one) => one >= value);
      if (!this.spec || next < 1 || this.spec.y.is_log) return;
      const [a, b] = [positions[next - 1], positions[next]];
      const share = Math.log(value / a) / Math.log(b / a);
      const mixed = heights[next].map((line, k) => line.map((one, place) => (1 - share) * heights[next - 1][k][place] + share * one));
      const series = this.spec.series.filter((one) => one.kind !== "dots");
      this.show({ ...this.spec, series: series.map((one, k) => (mixed[k] && mixed[k].length === one.y.length ? { ...one, y: mixed[k] } : one)) }, `${value}`);
    }

    placeHandle() {
      const input = document.getElementById(this.spec.handle);
      if (!this.handle) {
        this.handle = html("div", { className: "handle", tabIndex: 0, role: "slider" }, this.plot);
        this.handle.setAttribute("aria-label", `${input.labels[0].textContent}, on the chart`);
        const move = (value) => {
          input.value = value;
          input.dispatchEvent(new Event("input", { bubbles: true }));
        };
        this.handle.addEventListener("pointerdown", (event) => { this.handle.setPointerCapture(event.pointerId); event.preventDefault(); this.handle.focus(); });
        this.handle.addEventListener("pointermove", (event) => {
          if (this.handle.hasPointerCapture(event.pointerId)) move(this.x.value(event.clientX - this.plot.getBoundingClientRect().left));
        });
        this.handle.addEventListener("keydown", (event) => {
          const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
          if (!steps) return;
          event.preventDefault();
          move(Number(input.value) + steps * input.step);
        });
      }
      const value = Number(input.value);
      this.handle.style.left = `${this.x(Math.max(this.x.low, Math.min(value, this.x.high)))}px`;
      this.handle.style.height = `${this.bottom - 20}px`;
      for (const [name, one] of [["min", input.min], ["max", input.max], ["now", value]]) this.handle.setAttribute(`aria-value${name}`, one);
    }

    hover(event) {
      if (!this.x || this.spec.y.names.length) return;
      const lines = this.spec.series.filter((one) => one.kind === "line" && one.label);
      const pixel = event ? event.clientX - this.plot.getBoundingClientRect().left : -1;
      const parts = [];
      let place = null;
      for (const one of lines) {
        const distances = one.x.map((value) => (known(value) ? Math.abs(this.x(value) - pixel) : Infinity));
        const nearest = distances.indexOf(Math.min(...distances));
        if (!(distances[nearest] < 24) || !known(one.y[nearest])) continue;
        place ??= one.x[nearest];
        parts.push(`${one.label} ${short(one.y[nearest])}`);
      }
      this.line.setAttribute("visibility", place === null ? "hidden" : "visible");
      this.readout.textContent = place === null ? "" : `${this.spec.x.label} ${short(place)}: ${parts.join(", ")}`;
      if (place !== null) for (const end of ["x1", "x2"]) this.line.setAttribute(end, this.x(place));
    }

    // Frames: a play button and a slider over the moments.
    prepare() {
      const last = this.spec.moments.length - 1;
      if (!this.button) {
        this.player.hidden = false;
        this.button = html("button", { type: "button" }, this.player, "Play");
        this.slider = html("input", { type: "range", min: 0, ariaLabel: "Epoch in the chart" }, this.player);
        this.moment = html("span", { className: "moment" }, this.player);
        this.slider.addEventListener("input", () => { this.pause(); this.goTo(Number(this.slider.value)); });
        this.button.addEventListener("click", () => {
          if (this.timer) { this.pause(); return; }
          this.button.textContent = "Pause";
          if (this.frame >= this.spec.moments.length - 1) this.goTo(0);
          this.timer = setInterval(() => (this.frame >= this.spec.moments.length - 1 ? this.pause() : this.goTo(this.frame + 1)), 140);
        });
      }
      this.slider.max = last;
      if (this.frame === undefined || !this.timer) this.frame = last;
    }

    pause() {
      clearInterval(this.timer);
      this.timer = null;
      this.button.textContent = "Play";
    }

    goTo(frame) {
      this.frame = Math.min(frame, this.spec.moments.length - 1);
      this.slider.value = this.frame;
      this.moment.textContent = this.spec.moments[this.frame];
      this.slider.setAttribute("aria-valuetext", this.moment.textContent);
      this.spec.frames[this.frame].forEach((values, k) => this.layers[k].querySelectorAll("circle").forEach((dot, place) => {
        dot.setAttribute("cx", known(values[place]) ? this.x(Math.min(values[place], 2 * this.x.high)) : -99);
      }));
    }

    rows() {
      const { spec } = this;
      if (spec.frames.length) {
        return [["series", spec.y.key, "moment", spec.x.key], ...spec.frames.flatMap((frame, k) => frame.flatMap((values, s) => values.map(
          (value, place) => [spec.series[s].key, spec.y.names[spec.series[s].y[place]], spec.moments[k], value])))];
      }
      const keyed = spec.series.filter((one) => one.key);
      if (keyed.length && keyed.every((one) => one.x.length === keyed[0].x.length)) {
        return [[spec.x.key, ...keyed.map((one) => one.key)], ...keyed[0].x.map((value, place) => [value, ...keyed.map((one) => one.y[place])])];
      }
      return [["series", spec.x.key, spec.y.key], ...spec.series.flatMap((one) => one.y.map((value, place) => [one.label, one.x[place], value]))];
    }

    save(kind) {
      const style = getComputedStyle(document.documentElement);
      // A spreadsheet takes words that begin like this for formulas.
      const cell = (value) => (typeof value !== "string" ? value ?? "" : `"${(/^[=+\-@\t\r]/.test(value) ? "'" : "") + value.replaceAll('"', '""')}"`);
      const text = kind === "csv" ? this.rows().map((row, place) => (place ? row.map(cell) : row).join(",")).join("\n") + "\n"
        : this.svg.outerHTML.replace("<svg", `<svg xmlns="${NAMESPACE}" font-family="sans-serif"`)
          .replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
      const link = html("a", { download: `reshuffle-${this.figure.id}.${kind}`, hidden: true }, document.body);
      link.href = URL.createObjectURL(new Blob([text], { type: kind === "csv" ? "text/csv" : "image/svg+xml" }));
      link.click();
      link.remove();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    }
  }

  window.ReshuffleChart = Chart;
})();
