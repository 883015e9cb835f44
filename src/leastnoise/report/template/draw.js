"use strict";
// Elements, numbers and scales. Text always goes in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function vary(node, name, value) {
  node.style.setProperty(name, value); // not a style attribute, which the page's policy forbids
  return node;
}

// Decimals worth showing of a number with this error: two digits of the error.
const decimals = (error) => (error > 0 ? Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(error)))) : 0);

function fixed(x, digits) {
  const text = x.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const zero = /^-[0.]+$/.test(text) ? text.slice(1) : text;
  return zero.replace("-", "−");
}

function figure(x) {
  if (x === 0) return "0";
  return Math.abs(x) >= 1000
    ? fixed(x, 0)
    : Number(x.toPrecision(4)).toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

// Numbers of one column with the same decimals: three digits of the smallest, and no more than needed.
function aligned(values) {
  const least = Math.min(...values.filter((x) => x > 0));
  const digits = Number.isFinite(least) ? Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(least)))) : 0;
  return (x) => fixed(x, digits);
}

const percent = (share) =>
  Math.abs(share) > 1e-5 ? `${Number((100 * share).toPrecision(3))}%` : share ? "less than 0.001%" : "0%";
const plural = (n, one, many) => `${fixed(n, 0)} ${n === 1 ? one : many}`;
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function ticks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw * 0.999);
  const marks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) marks.push(k * step);
  return marks;
}

function logTicks(low, high) {
  const marks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const k of [1, 2, 5]) {
      const x = Number((k * 10 ** power).toPrecision(1));
      if (x >= low * 0.999 && x <= high * 1.001) marks.push(x);
    }
  }
  return marks;
}

const linear = (low, high, from, to) => (x) => from + ((x - low) / (high - low || 1)) * (to - from);
const logarithmic = (low, high, from, to) => {
  const scale = linear(Math.log(low), Math.log(high), from, to);
  return (x) => scale(Math.log(x));
};

const path = (points) => points.map(([x, y], k) => `${k ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
const text = (x, y, words, attributes = {}) => svg("text", { x, y, ...attributes }, words);
const line = (x1, y1, x2, y2, kind) => svg("line", { x1, y1, x2, y2, class: kind });

// A chart is one stop of the keyboard: arrow keys move over its points, and so does the pointer.
// `draw(width)` gives {height, marks, points: [{x, y, w, h, say}], columns}.
function chart(label, draw) {
  const tip = html("p", { class: "tip", role: "status", hidden: true });
  const name = `${label}. Arrow keys read the values.`;
  const frame = html("div", { class: "chart", tabindex: "0", role: "group", "aria-label": name }, tip);
  let drawn = null;
  let width = 0;
  let at = 0;
  let cursor = null;

  function redraw() {
    const now = Math.floor(frame.clientWidth);
    if (!now) return;
    width = now;
    drawn = draw(width);
    at = Math.min(at, Math.max(0, drawn.points.length - 1));
    cursor = svg("rect", { class: "cursor", visibility: "hidden" });
    const view = { viewBox: `0 0 ${width} ${drawn.height}`, "aria-hidden": "true", focusable: "false" };
    const picture = svg("svg", view, ...drawn.marks, cursor);
    frame.querySelector("svg")?.remove();
    frame.prepend(picture);
    if (document.activeElement === frame) show(at);
    else hide();
  }
  function show(index) {
    const point = drawn?.points[index];
    if (!point) return;
    at = index;
    const { x, y, w, h } = point;
    fill(cursor, { x: x - 1, y: y - 1, width: w + 2, height: h + 2, visibility: "visible" }, []);
    tip.textContent = point.say;
    tip.hidden = false;
    const scale = frame.clientWidth / width;
    const left = Math.max(0, Math.min(frame.clientWidth - tip.offsetWidth, (x + w / 2) * scale - tip.offsetWidth / 2));
    const above = y * scale - tip.offsetHeight - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > -30 ? above : (y + h) * scale + 8}px`;
  }
  function hide() {
    tip.hidden = true;
    cursor?.setAttribute("visibility", "hidden");
  }
  function nearest(event) {
    const box = frame.getBoundingClientRect();
    const scale = width / box.width;
    const [px, py] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let best = -1;
    let least = Infinity;
    drawn.points.forEach(({ x, y, w, h }, k) => {
      const far = Math.hypot(Math.max(x - px, 0, px - x - w), Math.max(y - py, 0, py - y - h));
      if (far < least) [best, least] = [k, far];
    });
    return best;
  }
  frame.addEventListener("pointermove", (event) => drawn && show(nearest(event)));
  frame.addEventListener("pointerdown", (event) => drawn && show(nearest(event)));
  frame.addEventListener("pointerleave", () => document.activeElement !== frame && hide());
  frame.addEventListener("focus", () => show(at));
  frame.addEventListener("blur", hide);
  frame.addEventListener("keydown", (event) => {
    if (!drawn || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = drawn.points.length - 1;
    const row = drawn.columns ?? 1;
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: row, ArrowUp: -row, Home: -at, End: last - at };
    if (event.key === "Escape") hide();
    if (!(event.key in moves)) return;
    event.preventDefault();
    const next = at + moves[event.key];
    if (next >= 0 && next <= last) show(next);
  });
  new ResizeObserver(() => frame.clientWidth !== width && redraw()).observe(frame);
  frame.redraw = redraw;
  return frame;
}
