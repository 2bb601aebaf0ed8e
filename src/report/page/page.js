(() => {
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const digits = value => value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
const grouped = value => value >= 99.95 ? Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",") : digits(value);
const duration = ns => ns < 999.5 ? ns.toFixed(0) + " ns" : ns < 999.5e3 ? digits(ns / 1e3) + " µs" : ns < 999.5e6 ? digits(ns / 1e6) + " ms" : digits(ns / 1e9) + " s";
const size = bytes => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1023.95 && unit < 4; unit++) bytes /= 1024;
  return (unit ? bytes.toFixed(1) : bytes.toFixed(0)) + " " + units[unit];
};
const written = {rate: value => grouped(value) + "/s", ns: duration, count: grouped, cores: value => value.toFixed(2), share: value => (100 * value).toFixed(1) + " %", bytes: size};
const two = number => String(number).padStart(2, "0");
const moment = seconds => {
  if (seconds < 120) return +seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  return whole < 7200 ? Math.floor(whole / 60) + ":" + two(whole % 60) + " min" : Math.floor(whole / 3600) + ":" + two(Math.floor(whole / 60) % 60) + " h";
};
const place = {time: moment, tail: nines => +(100 - 100 * 10 ** -nines).toPrecision(Math.ceil(nines) + 2) + " %"};
const charts = [];
const make = (name, attributes, text = "") => {
  const element = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.textContent = text;
  return element;
};

// Which part of the time is shown, for all charts that are as long.
const timed = [...document.querySelectorAll("svg[data-until]")], parts = new Map(), resets = [];
const shown = until => parts.get(until) || [0, until];
const plot = svg => svg.dataset.plot.split(" ").map(Number);
const steps = [.1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 604800];
const zoom = (until, one, other) => {
  const least = until / 200, whole = one === undefined || other - one >= until;
  const middle = (one + other) / 2, length = Math.max(other - one, least);
  const from = whole ? 0 : Math.max(0, Math.min(until - length, middle - length / 2)), to = whole ? until : from + length;
  parts.set(until, [from, to]);
  timed.filter(svg => +svg.dataset.until === until).forEach(svg => {
    const [left, top, width, height] = plot(svg), place = at => left + width * (at - from) / (to - from);
    svg.querySelectorAll(".window").forEach(inner => {
      inner.all ||= inner.getAttribute("viewBox");
      const [, y, , tall] = inner.all.split(" ");
      inner.setAttribute("viewBox", whole ? inner.all : [left + width * from / until, y, width * (to - from) / until, tall].join(" "));
    });
    svg.querySelectorAll("[data-at]").forEach(text => {
      const at = +text.dataset.at;
      text.classList.toggle("off", at < from || at > to);
      text.setAttribute("x", place(at));
    });
    const ticks = svg.querySelector(".ticks"), step = steps.find(step => (to - from) / step <= width / 70) || 604800;
    ticks.all ||= [...ticks.childNodes];
    ticks.replaceChildren(...whole ? ticks.all : []);
    if (whole) return;
    for (let at = Math.ceil(from / step - 1e-9) * step; at <= to + step * 1e-9; at += step) {
      ticks.append(make("path", {class: "axis", d: `M${place(at)},${top + height}v4`}));
      ticks.append(make("text", {class: "tick m", x: place(at), y: top + height + 18}, moment(at)));
    }
  });
  resets.filter(reset => reset.until === until).forEach(reset => { reset.button.hidden = whole; });
};
timed.forEach(svg => {
  const until = +svg.dataset.until;
  let begin = null, mark = null;
  const at = event => {
    const [left, , width] = plot(svg), bounds = svg.getBoundingClientRect(), [from, to] = shown(until);
    const share = ((event.clientX - bounds.left) / bounds.width * svg.viewBox.baseVal.width - left) / width;
    return from + Math.max(0, Math.min(1, share)) * (to - from);
  };
  const end = () => {
    if (mark) mark.remove();
    begin = mark = null;
  };
  svg.addEventListener("pointerdown", event => { if (event.button === 0) begin = at(event); });
  svg.addEventListener("pointermove", event => {
    if (begin === null) return;
    const [left, top, width, height] = plot(svg), [from, to] = shown(until), places = [begin, at(event)].sort((a, b) => a - b);
    if (!mark) {
      svg.append(mark = make("rect", {class: "chosen", y: top, height}));
      svg.setPointerCapture(event.pointerId);
    }
    mark.setAttribute("x", left + width * (places[0] - from) / (to - from));
    mark.setAttribute("width", width * (places[1] - places[0]) / (to - from));
  });
  svg.addEventListener("pointerup", event => {
    if (begin === null) return;
    const [from, to] = shown(until), places = [begin, at(event)].sort((a, b) => a - b);
    if (places[1] - places[0] > (to - from) / 50) zoom(until, ...places);
    end();
  });
  svg.addEventListener("pointercancel", end);
  svg.addEventListener("dblclick", () => zoom(until));
  svg.addEventListener("keydown", event => {
    const [from, to] = shown(until), factor = {"+": .5, "-": 2}[event.key];
    if (event.key === "0") zoom(until);
    else if (factor) zoom(until, (from + to) / 2 - factor * (to - from) / 2, (from + to) / 2 + factor * (to - from) / 2);
  });
});
if (timed.length) {
  const hint = document.createElement("p");
  hint.className = "hint";
  hint.textContent = "Drag across a chart to enlarge that time in all of them; double-click for the whole. By keyboard: +, − and 0.";
  timed[0].closest("figure").before(hint);
}

document.querySelectorAll("figure").forEach(figure => {
  const data = figure.querySelector("script[type='application/json']");
  if (!data) return;
  const values = JSON.parse(data.textContent), box = figure.querySelector(".chart");
  const row = document.createElement("div"), readout = document.createElement("output"), hidden = new Set();
  row.className = "series";
  readout.className = "readout";
  box.before(row);
  if (values.series.length > 1) values.series.forEach(([name], index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const off = !hidden.has(index);
      off ? hidden.add(index) : hidden.delete(index);
      button.setAttribute("aria-pressed", String(!off));
      figure.querySelectorAll(`[data-series="${index}"]`).forEach(part => part.classList.toggle("off", off));
    });
    row.append(button);
  });
  if (values.axis === "time") {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "whole";
    button.textContent = "Whole time";
    button.hidden = true;
    button.addEventListener("click", () => zoom(values.until));
    resets.push({until: values.until, button});
    row.append(button);
  }
  row.append(readout);
  const range = () => values.axis === "time" ? shown(values.until) : [0, values.until];
  const show = at => {
    let nearest = 0;
    values.at.forEach((other, index) => { if (Math.abs(other - at) < Math.abs(values.at[nearest] - at)) nearest = index; });
    const texts = values.series.map(([name, series], index) => hidden.has(index) || series[nearest] == null ? "" : name + " " + written[values.unit](series[nearest]));
    readout.textContent = [place[values.axis](values.at[nearest]), ...texts.filter(Boolean)].join(" · ");
    box.querySelectorAll(":scope>svg").forEach(svg => {
      const [left, top, width, height] = plot(svg), [from, to] = range();
      let line = svg.querySelector(".cursor");
      if (!line) svg.append(line = make("path", {class: "cursor"}));
      const share = Math.max(0, Math.min(1, (values.at[nearest] - from) / (to - from)));
      line.setAttribute("d", `M${left + width * share},${top}v${height}`);
    });
  };
  const hide = () => {
    readout.textContent = "";
    box.querySelectorAll(".cursor").forEach(line => line.remove());
  };
  charts.push({axis: values.axis, until: values.until, show, hide});
  const alike = () => values.axis === "time" ? charts.filter(chart => chart.axis === "time" && chart.until === values.until) : charts.filter(chart => chart.show === show);
  let at = 0;
  const all = to => { at = Math.max(range()[0], Math.min(range()[1], to)); alike().forEach(chart => chart.show(at)); };
  box.querySelectorAll(":scope>svg").forEach(svg => {
    svg.addEventListener("pointermove", event => {
      const [left, , width] = plot(svg), bounds = svg.getBoundingClientRect(), [from, to] = range();
      all(from + ((event.clientX - bounds.left) / bounds.width * svg.viewBox.baseVal.width - left) / width * (to - from));
    });
    svg.addEventListener("pointerleave", () => alike().forEach(chart => chart.hide()));
    svg.tabIndex = 0;
    svg.addEventListener("keydown", event => {
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!step) return;
      event.preventDefault();
      all(at + step * values.until / Math.max(1, values.at.length - 1));
    });
    svg.addEventListener("blur", () => alike().forEach(chart => chart.hide()));
  });
});

const text = document.getElementById("scenario-text");
if (text && navigator.clipboard) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", () => navigator.clipboard.writeText(text.textContent).then(() => { button.textContent = "Copied"; }));
  text.before(button);
}
})();
