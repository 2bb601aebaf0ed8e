// Opens each page in a frame at each width and looks at it as a reader would: what is wrong goes into `faults`.
const parse = colour => (colour.match(/[\d.]+/g) || []).map(Number);
// Relative luminance and contrast as WCAG 2.2 defines them.
const luminance = ([red, green, blue]) => {
  const linear = value => value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
};
const contrast = (one, other) => {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const ground = (view, element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parse(view.getComputedStyle(at).backgroundColor);
    if (colour.length >= 3 && colour[3] !== 0) return colour;
  }
  return [255, 255, 255];
};
const isSeen = element => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && element.getClientRects().length > 0;

function texts(frame, faults) {
  const view = frame.contentWindow, page = frame.contentDocument;
  const own = element => [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  const elements = [...page.body.querySelectorAll("*")].filter(element => own(element) && isSeen(element) && !["SCRIPT", "STYLE"].includes(element.tagName));
  elements.forEach(element => {
    const style = view.getComputedStyle(element), inDrawing = element.namespaceURI.endsWith("svg");
    let behind = ground(view, element);
    const shade = inDrawing && [...element.classList].find(name => /^h[1-6]t$/.test(name));
    if (shade) behind = parse(view.getComputedStyle(element.closest("svg").querySelector("." + shade.slice(0, 2))).fill);
    const found = contrast(parse(inDrawing ? style.fill : style.color), behind);
    if (found < 4.5) faults.push(`contrast ${found.toFixed(2)}: ${element.textContent.slice(0, 40)}`);
    if (parseFloat(style.fontSize) < 11) faults.push(`small: ${element.textContent.slice(0, 40)}`);
    if (inDrawing) {
      const [inner, outer] = [element.getBoundingClientRect(), element.closest("svg").getBoundingClientRect()];
      if (inner.left < outer.left - 2 || inner.right > outer.right + 2) faults.push(`leaves its chart: ${element.textContent.slice(0, 40)}`);
    }
  });
  return elements.length;
}

// A part of the time is enlarged in every chart over time, and all of them become what they were.
function zoomed(view, drawings, faults) {
  const state = drawing => [...drawing.querySelectorAll(".window")].map(inner => inner.getAttribute("viewBox")).join() + drawing.querySelector(".ticks").textContent;
  const press = key => drawings[0].dispatchEvent(new view.KeyboardEvent("keydown", {key, bubbles: true}));
  const before = drawings.map(state);
  press("+");
  const during = drawings.map(state);
  drawings.forEach((drawing, index) => {
    if (during[index] === before[index]) faults.push("not enlarged: " + drawing.closest("figure").id);
    const outer = drawing.getBoundingClientRect();
    const leaves = [...drawing.querySelectorAll("text")].filter(isSeen).some(text => text.getBoundingClientRect().right > outer.right + 2);
    if (leaves) faults.push("a text leaves its enlarged chart: " + drawing.closest("figure").id);
  });
  if (![...view.document.querySelectorAll(".whole")].some(button => !button.hidden)) faults.push("nothing shows the whole time again");
  press("0");
  drawings.map(state).forEach((now, index) => { if (now !== before[index]) faults.push(`not as before: ${before[index]} and now ${now}`); });
}

function examine(frame) {
  const faults = [], view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`overflow: ${root.scrollWidth} of ${root.clientWidth} px`);
  const requests = view.performance.getEntriesByType("resource").map(entry => entry.name).filter(name => !name.startsWith("data:"));
  requests.forEach(name => faults.push("request: " + name));
  const drawings = [...page.querySelectorAll(".chart > svg")].filter(isSeen);
  drawings.forEach(drawing => {
    const figure = drawing.closest("figure");
    if (drawing.getAttribute("role") !== "img" || (drawing.getAttribute("aria-label") || "").length < 20) faults.push("a drawing without a text");
    if (!figure.querySelector("figcaption p").textContent.trim()) faults.push("a chart without a sentence");
    // Of some charts, the table stands below them for all to see.
    const isBelow = ["ratios-of-figures", "probes", "published-figures"].includes(figure.id) && figure.closest("section").querySelector("table");
    if (!figure.querySelector("table") && !isBelow) faults.push("a chart without a table: " + figure.id);
  });
  page.querySelectorAll("figure").forEach(figure => {
    const shown = [...figure.querySelectorAll(".chart > svg")].filter(isSeen).length;
    if (shown !== 1) faults.push(`${figure.id}: ${shown} drawings are shown`);
  });
  page.querySelectorAll(".tiles b").forEach(figure => {
    if (figure.scrollWidth > figure.clientWidth) faults.push("wider than its tile: " + figure.textContent);
    if (figure.clientHeight > 1.8 * parseFloat(view.getComputedStyle(figure).fontSize)) faults.push("a figure of two lines: " + figure.textContent);
  });
  const headings = [...page.querySelectorAll("h1,h2,h3")].map(heading => +heading.tagName[1]);
  if (page.querySelectorAll("h1").length !== 1) faults.push("not one main heading");
  if (headings.some((level, index) => index > 0 && level > headings[index - 1] + 1)) faults.push("a level of headings is left out");
  const ids = [...page.querySelectorAll("[id]")].map(element => element.id);
  ids.filter((id, index) => ids.indexOf(id) !== index).forEach(id => faults.push("twice: #" + id));
  const count = texts(frame, faults);
  // The script adds values under the pointer and switches series.
  const timed = page.querySelector("figure:has(script) .chart svg.wide") && drawings.find(drawing => drawing.closest("figure").querySelector("script"));
  if (timed) {
    timed.focus();
    timed.dispatchEvent(new view.KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
    if (!timed.closest("figure").querySelector(".readout").textContent) faults.push("no values under the pointer");
    const button = timed.closest("figure").querySelector(".series button");
    if (button) {
      button.click();
      if (!timed.querySelector(".off")) faults.push("a series cannot be switched off");
      button.click();
    }
  }
  const long = drawings.filter(drawing => drawing.dataset.until);
  if (long.length) zoomed(view, long, faults);
  return {faults: [...new Set(faults)], texts: count, dark: view.matchMedia("(prefers-color-scheme: dark)").matches};
}

async function look(name, text, width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  const errors = [];
  await new Promise(resolve => {
    frame.addEventListener("load", resolve);
    frame.srcdoc = text;
    document.body.append(frame);
  });
  frame.contentWindow.addEventListener("error", event => errors.push(event.message));
  const found = examine(frame);
  frame.remove();
  found.faults.push(...errors);
  return {page: name, width, ...found};
}

(async () => {
  const found = [];
  for (const [name, text, widths] of pages) for (const width of widths) found.push(await look(name, text, width));
  document.getElementById("findings").textContent = JSON.stringify(found);
  // The texts of the pages need not be printed.
  document.querySelectorAll("script").forEach(script => script.remove());
})();
