// Charts as SVG, drawn at the width they have on the screen: axes, lines, bars, dots, arrows, a handle, values on hover.
"use strict";

(function () {
  const NAMESPACE = "http://www.w3.org/2000/svg";
  const colour = (name) => `var(--${name})`;
  const known = (value) => value !== null && Number.isFinite(value);
  const short = (value) => String(parseFloat(value.toPrecision(4)));

  function make(name, attributes, parent, text = "") {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    parent.append(element);
    return element;
  }

  function html(name, attributes, parent, textContent = "") {
    const element = Object.assign(document.createElement(name), { textContent, ...attributes });
    parent.append(element);
    return element;
  }

  const range = (first, last, every = 1) => Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, k) => first + k * every);

  function ticks(low, high, isLog) {
    if (!isLog) {
      const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
      const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
      return range(Math.ceil(low / step), high / step + 1e-9).map((k) => parseFloat((k * step).toPrecision(12)));
    }
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    if (last - first > 1) return range(first, last, Math.max(1, Math.ceil((last - first) / 5))).map((k) => 10 ** k);
    return range(first - 1, last).flatMap((k) => [1, 2, 5].map((one) => one * 10 ** k)).filter((one) => one >= low && one <= high);
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
      this.figure.innerHTML = `<figcaption></figcaption>
        <div class="plot"><svg role="img"></svg><p class="readout" aria-hidden="true"></p></div>
        <p class="legend" aria-hidden="true"></p>
        <p class="tools">
          <span class="player" hidden><button type="button">Play</button><input type="range" min="0" aria-label="Epoch in the chart"><span class="moment"></span></span>
          <button type="button" id="${tab}-${name}-svg">Save SVG<span class="unseen"></span></button>
          <button type="button" id="${tab}-${name}-csv">Save CSV<span class="unseen"></span></button>
        </p>`;
      for (const part of ["figcaption", "plot", "svg", "readout", "legend", "player", "moment"]) this[part] = this.figure.querySelector(`${part}, .${part}`);
      [this.button, this.slider] = this.player.children;
      for (const kind of ["svg", "csv"]) this.figure.querySelector(`[id$=-${kind}]`).addEventListener("click", () => this.save(kind));
      this.button.addEventListener("click", () => this.play(!this.timer));
      this.slider.addEventListener("input", () => { this.play(false); this.goTo(Number(this.slider.value)); });
      this.plot.addEventListener("pointermove", (event) => this.hover(event));
      this.plot.addEventListener("pointerleave", () => this.hover(null));
      new ResizeObserver(() => this.draw()).observe(this.plot);
    }

    // The curve of the inputs before stays as a ghost; a drag has one ghost, that of its beginning.
    show(spec, setting) {
      const now = performance.now();
      if (this.spec && setting !== this.setting) {
        if (!this.ghost || now - this.changed > 900) this.ghost = this.spec;
        this.changed = now;
      }
      this.changed ??= now;
      Object.assign(this, { spec, setting });
      this.figcaption.textContent = spec.title;
      this.svg.setAttribute("aria-label", spec.words);
      for (const unseen of this.figure.querySelectorAll(".unseen")) unseen.textContent = ` of: ${spec.title}`;
      this.legend.replaceChildren();
      for (const one of spec.series.filter((series) => series.label)) {
        const entry = html("span", {}, this.legend, one.label);
        entry.style.setProperty("--key", colour(one.colour));
        entry.className = one.kind === "line" && one.dash ? "dashed" : one.kind;
      }
      if (this.ghost) html("span", { className: "ghost" }, this.legend, "before");
      this.player.hidden = !spec.frames.length;
      this.slider.max = spec.moments.length - 1;
      if (!this.timer) this.frame = spec.moments.length - 1;
      this.draw();
    }

    draw() {
      const { spec, svg } = this;
      const width = this.plot.clientWidth;
      if (!spec || width < 50) return;
      const height = width < 480 ? 210 : Math.max(230, Math.min(0.58 * width, 330));
      const names = spec.y.names, left = names.length ? 124 : 48, right = width - 14, bottom = height - 38;
      for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) svg.setAttribute(key, value);
      svg.replaceChildren();
      make("rect", { width, height, fill: colour("card") }, svg);
      const drawn = spec.series.filter((one) => one.kind !== "hidden");
      const x = scale(spec.x, drawn.flatMap((one) => one.x), left, right);
      const y = names.length ? scale({ low: -0.5, high: names.length - 0.5 }, [], 8, bottom)
        : scale(spec.y, drawn.filter((one) => one.kind !== "arrows").flatMap((one) => one.y), bottom, 24);
      Object.assign(this, { x, y, bottom });
      const line = (x1, y1, x2, y2, stroke, more) => make("line", { x1, y1, x2, y2, stroke: colour(stroke), ...more }, svg);
      const write = (text, at, height, anchor, fill = "ink") => make(
        "text", { x: at, y: height, "text-anchor": anchor, fill: colour(fill), "font-size": 12, "font-family": "inherit" }, svg, text);
      const levels = names.length ? names.map((name, place) => [place, name]) : y.ticks.map((tick) => [tick, short(tick)]);
      for (const [place, text] of levels) {
        line(left, y(place), right, y(place), "faint", { "stroke-width": 0.7 });
        write(text, left - 6, y(place) + 4, "end");
      }
      for (const tick of x.ticks) {
        line(x(tick), bottom, x(tick), bottom + 4, "ink");
        write(short(tick), x(tick), bottom + 17, "middle");
      }
      line(left, bottom, right, bottom, "ink");
      write(spec.x.label, (left + width) / 2, height - 4, "middle");
      write(spec.y.label, 2, 13, "start");
      for (const [place, label] of spec.marks.filter((mark) => mark[0] >= x.low && mark[0] <= x.high)) {
        line(x(place), 20, x(place), bottom, "warn", { "stroke-dasharray": "5 3", "stroke-width": 1.4 });
        const isRight = x(place) > (left + width) / 2;
        write(label, x(place) + (isRight ? -5 : 5), 32, isRight ? "end" : "start", "warn");
      }
      const clip = make("clipPath", { id: `${this.figure.id}-clip` }, svg);
      make("rect", { x: left - 4, y: names.length ? 0 : 19, width: width - left - 6, height: bottom }, clip);
      const inside = make("g", { "clip-path": `url(#${clip.id})` }, svg);
      if (this.ghost?.y.is_log === spec.y.is_log) this.series({ ...this.ghost.series[0], colour: "grey", dash: "", width: 1.4 }, inside, 0.55);
      this.layers = drawn.map((one) => this.series(one, inside, 1));
      this.line = line(0, 20, 0, bottom, "grey", { visibility: "hidden" });
      if (spec.handle) this.placeHandle();
      if (spec.frames.length) this.goTo(this.frame);
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

    play(isOn) {
      clearInterval(this.timer);
      this.button.textContent = isOn ? "Pause" : "Play";
      const last = () => this.spec.moments.length - 1;
      if (isOn && this.frame >= last()) this.goTo(0);
      this.timer = isOn ? setInterval(() => (this.frame < last() ? this.goTo(this.frame + 1) : this.play(false)), 140) : null;
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
