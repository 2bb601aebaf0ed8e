(() => {
"use strict";
const SVG = "http://www.w3.org/2000/svg";
const digits = value => value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
const grouped = value => value >= 99.95 ? Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",") : digits(value);
const duration = ns => ns < 999.5 ? ns.toFixed(0) + " ns" : ns < 999.5e3 ? digits(ns / 1e3) + " µs" : ns < 999.5e6 ? digits(ns / 1e6) + " ms" : digits(ns / 1e9) + " s";
const written = {rate: value => grouped(value) + "/s", ns: duration, count: grouped, cores: value => value.toFixed(2), share: value => (100 * value).toFixed(1) + " %", bytes: grouped};
const two = number => String(number).padStart(2, "0");
const moment = seconds => {
  if (seconds < 120) return +seconds.toFixed(1) + " s";
  const whole = Math.round(seconds);
  return whole < 7200 ? Math.floor(whole / 60) + ":" + two(whole % 60) + " min" : Math.floor(whole / 3600) + ":" + two(Math.floor(whole / 60) % 60) + " h";
};
const place = {time: moment, tail: nines => +(100 - 100 * 10 ** -nines).toPrecision(Math.ceil(nines) + 2) + " %"};
const charts = [];

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
  row.append(readout);
  const show = at => {
    let nearest = 0;
    values.at.forEach((other, index) => { if (Math.abs(other - at) < Math.abs(values.at[nearest] - at)) nearest = index; });
    const texts = values.series.map(([name, series], index) => hidden.has(index) || series[nearest] == null ? "" : name + " " + written[values.unit](series[nearest]));
    readout.textContent = [place[values.axis](values.at[nearest]), ...texts.filter(Boolean)].join(" · ");
    box.querySelectorAll("svg").forEach(svg => {
      const [left, top, width, height] = svg.dataset.plot.split(" ").map(Number);
      let line = svg.querySelector(".cursor");
      if (!line) {
        line = document.createElementNS(SVG, "path");
        line.setAttribute("class", "cursor");
        svg.append(line);
      }
      line.setAttribute("d", `M${left + width * values.at[nearest] / values.until},${top}v${height}`);
    });
  };
  const hide = () => {
    readout.textContent = "";
    box.querySelectorAll(".cursor").forEach(line => line.remove());
  };
  charts.push({axis: values.axis, until: values.until, show, hide});
  const alike = () => values.axis === "time" ? charts.filter(chart => chart.axis === "time" && chart.until === values.until) : charts.filter(chart => chart.show === show);
  let at = 0;
  const all = to => { at = Math.max(0, Math.min(values.until, to)); alike().forEach(chart => chart.show(at)); };
  box.querySelectorAll("svg").forEach(svg => {
    svg.addEventListener("pointermove", event => {
      const [left, , width] = svg.dataset.plot.split(" ").map(Number), bounds = svg.getBoundingClientRect();
      all(((event.clientX - bounds.left) / bounds.width * svg.viewBox.baseVal.width - left) / width * values.until);
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
