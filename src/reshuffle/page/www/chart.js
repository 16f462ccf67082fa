// Charts as SVG, drawn at the width they have on the screen: axes, lines, bars, dots, arrows, a handle, values on hover.
"use strict";

const NAMESPACE = "http://www.w3.org/2000/svg";
const colour = (name) => `var(--${name})`;
const known = (value) => value !== null && Number.isFinite(value);
const short = (value) => (Math.abs(value) < 1e5 ? String(parseFloat(value.toPrecision(4))) : value.toExponential().replace("e+", "e"));
const clamp = (value, low, high) => Math.max(low, Math.min(value, high));
const range = (first, last, every = 1) => Array.from({ length: Math.floor((last - first) / every) + 1 }, (_, k) => first + k * every);

function set(element, attributes, parent, text = "") {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  parent.append(element);
  return element;
}
const make = (name, ...rest) => set(document.createElementNS(NAMESPACE, name), ...rest);
const html = (name, ...rest) => set(document.createElement(name), ...rest);

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
  return Object.assign(place, { low, high, ticks: ticks(low, high, axis.is_log) });
}

class Chart {
  constructor(figure) {
    this.figure = figure;
    for (const part of ["figcaption", "plot", "svg", "readout", "legend", "player", "moment"]) this[part] = figure.querySelector(`${part}, .${part}`);
    [this.button, this.slider] = this.player.children;
    for (const kind of ["svg", "csv"]) figure.querySelector(`[id$=-${kind}]`).addEventListener("click", () => this.save(kind));
    this.button.addEventListener("click", () => this.play(!this.timer));
    this.slider.addEventListener("input", () => { this.play(false); this.goTo(Number(this.slider.value)); });
    for (const kind of ["pointermove", "pointerleave"]) this.plot.addEventListener(kind, (event) => this.hover(kind === "pointermove" ? event.clientX - this.plot.getBoundingClientRect().left : -99));
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
    Object.assign(this, { spec, setting, isOutdated: false });
    this.figcaption.textContent = spec.title;
    this.svg.setAttribute("aria-label", spec.words);
    for (const button of this.figure.querySelectorAll(".tools > button")) button.ariaLabel = `${button.textContent} of: ${spec.title}`;
    this.legend.replaceChildren();
    for (const one of spec.series.filter((series) => series.label)) {
      html("span", { class: one.kind === "line" && one.dash ? "dashed" : one.kind }, this.legend, one.label).style.setProperty("--key", colour(one.colour));
    }
    if (this.ghost) html("span", { class: "ghost" }, this.legend, "before");
    this.player.hidden = !spec.frames.length;
    this.slider.max = spec.moments.length - 1;
    if (spec.frames.length) this.goTo(this.timer ? this.frame : Infinity);
    else this.draw();
  }

  draw() {
    const { spec, svg } = this, width = this.plot.clientWidth;
    if (!spec || width < 50) return;
    const height = width < 480 ? 210 : clamp(0.58 * width, 230, 330);
    const names = spec.y.names, left = names.length ? 124 : 48, right = width - 14, bottom = height - 38;
    for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) svg.setAttribute(key, value);
    svg.replaceChildren();
    make("rect", { width, height, fill: colour("card") }, svg);
    const frame = spec.frames[this.frame] ?? spec.series.map((one) => one.x);
    const drawn = spec.series.map((one, k) => ({ ...one, x: frame[k] })).filter((one) => one.kind !== "hidden");
    const x = scale(spec.x, drawn.flatMap((one) => one.x), left, right);
    const y = names.length ? scale({ low: -0.5, high: names.length - 0.5 }, [], 8, bottom)
      : scale(spec.y, drawn.filter((one) => one.kind !== "arrows").flatMap((one) => one.y), bottom, 24);
    Object.assign(this, { x, y, bottom });
    const line = (x1, y1, x2, y2, stroke, more) => make("line", { x1, y1, x2, y2, stroke: colour(stroke), ...more }, svg);
    const write = (text, at, height, anchor, fill = "ink") => make("text", { x: at, y: height, "text-anchor": anchor, fill: colour(fill), "font-size": 12 }, svg, text);
    for (const [place, text] of names.length ? names.entries() : y.ticks.map((tick) => [tick, short(tick)])) {
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
      const isRight = x(place) > (left + width) / 2;
      line(x(place), 20, x(place), bottom, "warn", { "stroke-dasharray": "5 3", "stroke-width": 1.4 });
      write(label, x(place) + (isRight ? -5 : 5), 32, isRight ? "end" : "start", "warn");
    }
    const clip = make("clipPath", { id: `${this.figure.id}-clip` }, svg);
    make("rect", { x: left - 4, y: names.length ? 0 : 19, width: width - left - 6, height: bottom }, clip);
    const inside = make("g", { "clip-path": `url(#${clip.id})` }, svg);
    if (this.ghost?.y.is_log === spec.y.is_log) this.series({ ...this.ghost.series[0], colour: "grey", dash: "", width: 1.4 }, inside, 0.55);
    for (const one of drawn) this.series(one, inside, 1);
    this.line = line(0, 20, 0, bottom, "grey", { visibility: "hidden" });
    if (spec.handle) this.placeHandle();
  }

  series(one, parent, opacity) {
    const { x, y, bottom } = this, group = make("g", { opacity }, parent), fill = colour(one.colour);
    const style = { fill: "none", stroke: fill, "stroke-width": one.width, "stroke-dasharray": one.dash, "stroke-linejoin": "round" };
    const points = one.x.map((value, place) => [value, one.y[place]]);
    const isShown = ([a, b]) => known(a) && known(b) && (!this.spec.y.is_log || b > 0) && (!this.spec.x.is_log || a > 0);
    if (one.kind === "line") {
      // Far outside, coordinates are cut: the clip hides them, and huge numbers upset browsers.
      const at = ([a, b]) => `${x(a).toFixed(1)} ${clamp(y(b), -999, 2999).toFixed(1)}`;
      const path = points.map((point, k) => (isShown(point) ? (k && isShown(points[k - 1]) ? "L" : "M") + at(point) : ""));
      make("path", { d: path.join(""), ...style }, group);
    } else if (one.kind === "bars") {
      one.y.forEach((b, k) => {
        const top = y(Math.min(b, y.high)), width = Math.max(0, x(one.x[k + 1]) - x(one.x[k]));
        make("rect", { x: x(one.x[k]), width, y: top, height: bottom - top, fill, opacity: 0.4 }, group);
      });
    } else if (one.kind === "arrows") {
      for (const [a, b] of points) {
        make("path", { d: `M${x(a)} ${bottom}V42m-4 8l4 -8l4 8`, ...style }, group);
        make("text", { x: x(a) + 6, y: 38, "font-size": 12, fill }, group, short(b));
      }
    } else {
      const size = one.width < 3 ? { r: one.width, opacity: 0.55 } : { r: 5 };
      for (const [a, b] of points.filter(isShown)) make("circle", { cx: clamp(x(a), -999, 2999), cy: y(b), fill, ...size }, group);
    }
    return group;
  }

  // Heights between those of two positions of the handle, until the server knows better.
  interpolate([positions, heights], value) {
    const next = positions.findIndex((one) => one >= value);
    if (!this.spec || next < 1 || this.spec.y.is_log) return;
    const [a, b] = [positions[next - 1], positions[next]], share = Math.log(value / a) / Math.log(b / a);
    const mixed = heights[next].map((line, k) => line.map((one, place) => (1 - share) * heights[next - 1][k][place] + share * one));
    const series = this.spec.series.filter((one) => one.kind !== "dots");
    this.show({ ...this.spec, series: series.map((one, k) => (mixed[k]?.length === one.y.length ? { ...one, y: mixed[k] } : one)) }, `${value}`);
  }

  // A slider across the chart, of which only the thumb is seen: keyboard, pointer and screen readers know it.
  placeHandle() {
    const input = document.getElementById(this.spec.handle), { low, high } = this.x;
    if (!this.handle) {
      this.handle = html("input", { type: "range", class: "handle", "aria-label": `${input.labels[0].textContent}, on the chart` }, this.plot);
      this.handle.addEventListener("input", () => {
        input.value = this.handle.value;
        input.dispatchEvent(new Event("input", { bubbles: true }));
      });
    }
    Object.assign(this.handle, { min: low, max: high, step: input.step, value: input.value });
    this.handle.style.cssText = `left: ${this.x(low) - 14}px; width: ${this.x(high) - this.x(low) + 28}px; --height: ${this.bottom - 20}px`;
  }

  hover(pixel) {
    if (!this.x || this.spec.y.names.length) return;
    const parts = [];
    let place = null;
    for (const one of this.spec.series.filter((series) => series.kind === "line" && series.label)) {
      const distances = one.x.map((value) => (known(value) ? Math.abs(this.x(value) - pixel) : Infinity));
      const nearest = distances.indexOf(Math.min(...distances));
      if (!(distances[nearest] < 24) || !known(one.y[nearest])) continue;
      place ??= one.x[nearest];
      parts.push(`${one.label} ${short(one.y[nearest])}`);
    }
    this.readout.textContent = place === null ? "" : `${this.spec.x.label} ${short(place)}: ${parts.join(", ")}`;
    const at = place === null ? 0 : this.x(place);
    for (const [key, value] of Object.entries({ x1: at, x2: at, visibility: at ? "visible" : "hidden" })) this.line.setAttribute(key, value);
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
    this.draw();
  }

  // A column for each line where they share their points, else a row for each number.
  rows() {
    const { spec } = this, { frames, moments, series } = spec, keyed = series.filter((one) => one.key);
    if (!frames.length && keyed.length && keyed.every((one) => one.x.length === keyed[0].x.length)) {
      return [[spec.x.key, ...keyed.map((one) => one.key)], ...keyed[0].x.map((value, place) => [value, ...keyed.map((one) => one.y[place])])];
    }
    const rows = (frame, moment) => series.flatMap((one, k) => one.y.map((value, place) => [one.key || one.label, ...moment, frame[k][place], spec.y.names[value] ?? value]));
    const found = frames.length ? frames.flatMap((frame, k) => rows(frame, [moments[k]])) : rows(series.map((one) => one.x), []);
    return [["series", ...(frames.length ? ["moment"] : []), spec.x.key, spec.y.key], ...found];
  }

  save(kind) {
    const style = getComputedStyle(document.documentElement);
    // A spreadsheet takes words that begin like this for formulas.
    const cell = (value) => (typeof value !== "string" ? value ?? "" : `"${(/^[=+\-@\t\r]/.test(value) ? "'" : "") + value.replaceAll('"', '""')}"`);
    const text = kind === "csv" ? this.rows().map((row) => row.map(cell).join(",")).join("\n") + "\n"
      : this.svg.outerHTML.replace("<svg", `<svg xmlns="${NAMESPACE}" font-family="sans-serif"`)
        .replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    const href = URL.createObjectURL(new Blob([text], { type: kind === "csv" ? "text/csv" : "image/svg+xml" }));
    html("a", { download: `reshuffle-${this.figure.id}.${kind}`, href }, document.createDocumentFragment()).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  }
}
