// The sections of the page, from the numbers in it.

const data = JSON.parse(document.getElementById("data").textContent);
const ROWS = 25; // of a long table that are shown at first
const level = percent(data.confidence);
const body = (name) => document.getElementById(`${name}-body`);

// Whole numbers have whole noise (docs/proofs.md): intervals reach at least the nearest whole number.
const reach = (value, spread) => (Number.isInteger(value) ? Math.max(spread, Math.ceil(spread - 0.5)) : spread);

function interval(name, value, error) {
  if (error === null) return { value, say: `${name}\nabout ${fixed(value, 1)}\ncompleted: a biased guess` };
  const digits = decimals(error);
  const spread = reach(value, data.width * error);
  const [low, high] = [value - spread, value + spread];
  const words = `${name}\n${fixed(value, digits)} ± ${fixed(spread, digits)}`;
  const range =
    error > 0
      ? `\n${level} interval: ${fixed(low, digits)} to ${fixed(high, digits)}\ns.e. ${figure(error)}`
      : "\nexact";
  return { value, low, high, say: words + range };
}

// Completed tables have no errors.
const errorAt = ({ std_errors: errors }, k) => (Array.isArray(errors) ? errors[k] : errors);
const ticksOf = (attribute) => attribute.ticks ?? attribute.labels;

function scrolling(label, node) {
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, node);
}

// --- tables that can be sorted -----------------------------------------------------------------------------------

// `columns` are {title, number, key(row), show(row)}; a click or Enter on a title with a key sorts, once more reverses.
// Those marked `minor` are left out where there is little room.
const looks = (column) => [column.number ? "number" : "", column.minor ? "minor" : ""].join(" ").trim() || null;

function sortable(label, columns, rows, { wide = false, last = null, most = ROWS } = {}) {
  const lines = html("tbody");
  const more = html("button", { type: "button" });
  const status = html("p", { class: "note", role: "status" });
  const heads = columns.map((column, c) => {
    const button = column.key ? html("button", { type: "button" }, column.title) : column.title;
    if (column.key) button.addEventListener("click", () => sort(c));
    return html("th", { scope: "col", class: looks(column) }, button);
  });
  let sorted = rows;
  let all = rows.length <= most;

  function row(entry, kind = null) {
    const cells = columns.map((column) => html("td", { class: looks(column) }, column.show(entry)));
    return html("tr", { class: kind }, ...cells);
  }
  function refill() {
    const shown = all ? sorted : sorted.slice(0, most);
    lines.replaceChildren(...shown.map((entry) => row(entry)), ...(last ? [row(last, "sum")] : []));
    more.hidden = rows.length <= most;
    more.textContent = all ? `Show the first ${most} rows` : `Show all ${plural(rows.length, "row", "rows")}`;
  }
  function sort(c) {
    const down = heads[c].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[c].setAttribute("aria-sort", down ? "descending" : "ascending");
    const { key, title } = columns[c];
    const compare = (a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0);
    sorted = [...rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
    status.textContent = `Sorted by ${title}, ${down ? "descending" : "ascending"}.`;
    refill();
  }
  more.addEventListener("click", () => {
    all = !all;
    refill();
  });
  refill();
  const table = html("table", { class: wide ? "wide" : null }, html("thead", {}, html("tr", {}, ...heads)), lines);
  return html("div", {}, scrolling(label, table), status, more);
}

// --- accuracy ----------------------------------------------------------------------------------------------------

function gauge(group, top) {
  const bar = vary(html("i"), "width", `${(100 * group.rmse) / top}%`);
  const tick = vary(html("b"), "left", `calc(${(100 * group.max_std_error) / top}% - 2px)`);
  return html("div", { class: "gauge", "aria-hidden": "true" }, bar, tick);
}

function target(group) {
  if (group.target === null || group.target === undefined) return "–";
  const met = group.max_std_error <= group.target * (1 + 1e-9);
  return html("span", { class: met ? null : "missed" }, `${figure(group.target)} (${met ? "met" : "missed"})`);
}

function showErrors() {
  const { all, groups } = data.errors;
  const top = Math.max(...groups.map((g) => g.max_std_error));
  const whole = { ...all, what: "All statistics", tables: groups.reduce((n, g) => n + g.tables, 0) };
  const rows = groups.map((g) => ({ ...g, what: `${g.family} on ${g.where}` }));
  const [typical, largest] = [aligned(groups.map((g) => g.rmse)), aligned(groups.map((g) => g.max_std_error))];
  const columns = [
    { title: "Statement", key: (g) => g.what, show: (g) => g.what },
    { title: "Tables", number: true, minor: true, key: (g) => g.tables, show: (g) => fixed(g.tables, 0) },
    { title: "Statistics", number: true, minor: true, key: (g) => g.queries, show: (g) => fixed(g.queries, 0) },
    { title: "Typical error", number: true, key: (g) => g.rmse, show: (g) => typical(g.rmse) },
    { title: "Largest s.e.", number: true, key: (g) => g.max_std_error, show: (g) => largest(g.max_std_error) },
    { title: "Compared", minor: true, show: (g) => gauge(g, top) },
  ];
  if (groups.some((g) => g.target !== null)) {
    columns.splice(5, 0, { title: "Target", number: true, key: (g) => g.target ?? Infinity, show: target });
  }
  body("errors").append(sortable("Errors of each statement", columns, rows, { wide: true, last: whole }));
  body("errors").append(
    html(
      "p",
      { class: "note" },
      "Typical error (bar): root mean square of the standard errors. Largest s.e. (mark): the largest of them.",
    ),
  );
  data.plans.forEach((plan) => body("errors").append(floorWords(plan), floorChart(plan)));
}

const EVEN = 1e-9; // relative difference that is only rounding
const UNITS = {
  rmse: "root mean square error",
  weighted_rmse: "weighted root mean square error",
  max_std_error: "largest standard error",
};

function floorWords(plan) {
  const { value, kind } = plan.floor;
  const unit = UNITS[plan.unit] ?? plan.unit;
  const planned = `The plan minimized the ${unit} and reached ${figure(plan.objective_value)}.`;
  const above = plan.objective_value / value - 1;
  const place = above > EVEN ? `the plan is ${percent(above)} above that floor` : "the plan is on that floor";
  const known =
    value > 0
      ? ` No factorization mechanism with the same privacy can be below ${figure(value)} (${kind}): ${place}.`
      : ` No floor is known for it (${kind}).`;
  const best = plan.gap > EVEN ? `it is within ${percent(plan.gap)} of the best` : "none is better";
  const own = plan.gap === null ? "" : ` Among plans of its own kind ${best}; this is proven.`;
  const loss = plan.rounding_loss;
  const change = `${percent(Math.abs(loss))} ${loss < 0 ? "lower" : "higher"}`;
  const measured = ` Measured in whole numbers, the typical error is ${change} than planned.`;
  return html("p", {}, planned + known + own + measured);
}

function floorChart(plan) {
  const entries = [
    ["This plan", plan.objective_value],
    ["Best of its kind", plan.class_floor],
    ["Proven floor", plan.floor.value],
  ];
  const points = entries
    .filter(([, value]) => value > 0)
    .map(([name, value], k) => ({ name, value, rest: k > 0, say: `${name}\n${figure(value)}` }));
  const caption = `Against the floor: ${UNITS[plan.unit] ?? plan.unit}`;
  return html(
    "figure",
    {},
    html("figcaption", {}, caption),
    chart(caption, bars(points, { unit: aligned(points.map((p) => p.value)) })),
  );
}

// --- tables ------------------------------------------------------------------------------------------------------

function codesOf(table, k) {
  const codes = [];
  for (let axis = table.attributes.length - 1; axis >= 0; axis--) {
    const size = data.attributes[table.attributes[axis]].size;
    codes.unshift(k % size);
    k = Math.floor(k / size);
  }
  return codes;
}

const completed = (table) => table.std_errors === null;
const titleOf = (table) => table.attributes.map((a) => data.attributes[a].name).join(" × ");
const labelOf = (table, axis, code) => data.attributes[table.attributes[axis]].labels[code];

function cellsOf(table) {
  return table.counts.map((count, k) => {
    const codes = codesOf(table, k);
    const name = codes
      .map((code, axis) => `${data.attributes[table.attributes[axis]].name} ${labelOf(table, axis, code)}`)
      .join(", ");
    return { codes, error: errorAt(table, k), ...interval(name, count, errorAt(table, k)) };
  });
}

function oneWay(table, cells) {
  const attribute = data.attributes[table.attributes[0]];
  const points = cells.map((cell, k) => ({ ...cell, name: attribute.labels[k], tick: ticksOf(attribute)[k] }));
  const flat = !attribute.ordered && points.length <= 40;
  const caption = `Counts by ${attribute.name}; lines are ${level} intervals`;
  return html(
    "figure",
    {},
    html("figcaption", {}, caption),
    chart(caption, flat ? bars(points) : columns(points, attribute.ordered)),
  );
}

// A map of two attributes; of the others one value at a time is chosen.
function manyWay(table, cells) {
  const sizes = table.attributes.map((a) => data.attributes[a].size);
  const order = sizes.map((_, axis) => axis).sort((a, b) => sizes[b] - sizes[a] || a - b);
  const [across, down, ...fixedAxes] = order;
  const [wide, tall] = [across, down].map((axis) => data.attributes[table.attributes[axis]]);
  const chosen = sizes.map(() => 0);
  const top = Math.max(0, ...table.counts);
  const cell = (r, c) => {
    const codes = chosen.map((code, axis) => (axis === across ? c : axis === down ? r : code));
    return cells[codes.reduce((k, code, axis) => k * sizes[axis] + code, 0)];
  };
  const caption = `Counts by ${tall.name} (down) and ${wide.name} (across)`;
  const picture = chart(caption, heat(tall.labels, ticksOf(wide), cell, top, wide.ordered));
  const selects = fixedAxes.map((axis) => {
    const attribute = data.attributes[table.attributes[axis]];
    const select = html("select", {}, ...attribute.labels.map((label, code) => html("option", { value: code }, label)));
    select.addEventListener("change", () => {
      chosen[axis] = Number(select.value);
      picture.redraw();
    });
    return html("label", {}, attribute.name, select);
  });
  const ramp = html(
    "span",
    { class: "ramp" },
    ...[0, 1, 2, 3, 4, 5, 6, 7].map((k) => vary(html("i"), "--share", String(k / 7))),
  );
  const legend = html(
    "div",
    { class: "legend" },
    html("span", {}, "0", ramp, fixed(top, 0)),
    completed(table) ? null : html("span", {}, "• the interval includes zero"),
  );
  const controls = selects.length ? html("div", { class: "controls" }, ...selects) : null;
  return html("figure", {}, html("figcaption", {}, caption), controls, picture, legend);
}

const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

function csv(table, cells) {
  const names = table.attributes.map((a) => data.attributes[a].name);
  const head = [...names, "count", ...(completed(table) ? [] : ["std_error", "low", "high"])].map(quoted).join(",");
  const rows = cells.map(({ codes, value, error, low, high }) => {
    const labels = codes.map((code, axis) => quoted(labelOf(table, axis, code)));
    const more = completed(table) ? [] : [error, Number(low.toPrecision(12)), Number(high.toPrecision(12))];
    return [...labels, value, ...more].join(",");
  });
  return `${[head, ...rows].join("\n")}\n`;
}

function save(name, content) {
  const link = html("a", { href: URL.createObjectURL(new Blob([content], { type: "text/csv" })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function cellTable(table, cells) {
  const digits = completed(table) ? 1 : decimals(Math.min(...cells.map((cell) => cell.error)));
  const names = table.attributes.map((a, axis) => ({
    title: data.attributes[a].name,
    key: (cell) => (data.attributes[a].ordered ? cell.codes[axis] : labelOf(table, axis, cell.codes[axis])),
    show: (cell) => labelOf(table, axis, cell.codes[axis]),
  }));
  const numbers = [
    ["Count", "value"],
    ["Std. error", "error"],
    ["Low", "low"],
    ["High", "high"],
  ]
    .slice(0, completed(table) ? 1 : 4)
    .map(([title, key]) => ({
      title,
      number: true,
      key: (cell) => cell[key],
      show: (cell) => fixed(cell[key], key === "error" ? Math.max(1, digits) : digits),
    }));
  return sortable(`Cells of ${titleOf(table)}`, [...names, ...numbers], cells);
}

function showTables() {
  if (!data.tables.length) {
    body("tables").append(html("p", {}, "No table of this release is small enough to be shown here."));
    return;
  }
  const all = [...data.tables, ...(data.adaptive?.completed ?? [])];
  const groups = new Map();
  all.forEach((table, k) => {
    const label = plural(table.attributes.length, "attribute", "attributes") + (completed(table) ? ", completed" : "");
    if (!groups.has(label)) groups.set(label, html("optgroup", { label }));
    groups
      .get(label)
      .append(html("option", { value: k }, `${titleOf(table)} (${plural(table.counts.length, "cell", "cells")})`));
  });
  const select = html("select", { id: "table" }, ...groups.values());
  const download = html("button", { type: "button", id: "download" }, "Download as CSV");
  const view = html("div");
  let shown = null;

  function show() {
    const table = all[Number(select.value)];
    shown = { table, cells: cellsOf(table) };
    const picture = table.attributes.length === 1 ? oneWay(table, shown.cells) : manyWay(table, shown.cells);
    const label = data.adaptive ? [kindOf(!completed(table))] : [];
    view.replaceChildren(...label, picture, cellTable(table, shown.cells));
  }
  select.addEventListener("change", show);
  download.addEventListener("click", () => save(shown.table.file, csv(shown.table, shown.cells)));
  body("tables").append(html("div", { class: "controls" }, html("label", {}, "Table", select), download), view);
  const first = data.tables.findIndex((table) => table.attributes.length === 2);
  select.value = String(Math.max(0, first));
  show();
}

// --- distributions -----------------------------------------------------------------------------------------------

function bandFigure(words, attribute, numbers, before) {
  const points = numbers.counts.map((count, k) => ({
    ...interval(`${attribute.name} ${before}${attribute.labels[k]}`, count, errorAt(numbers, k)),
    tick: ticksOf(attribute)[k],
  }));
  return html("figure", {}, html("figcaption", {}, words), chart(`${attribute.name}: ${words}`, band(points)));
}

function showDistributions() {
  data.distributions.forEach(({ attribute: a, each, at_most: upTo }, k) => {
    const attribute = data.attributes[a];
    const pair = html(
      "div",
      { class: "pair" },
      bandFigure(`Count of each value, with ${level} band`, attribute, each, ""),
      bandFigure(`Count up to each value, with ${level} band`, attribute, upTo, "up to "),
    );
    body("distributions").append(html("details", { open: k < 3 }, html("summary", {}, attribute.name), pair));
  });
}

// --- budget ------------------------------------------------------------------------------------------------------

function showAllocation() {
  const { shares, rest, rest_sets: sets, choosing } = data.allocation;
  const points = shares.map(({ attributes, share }) => {
    const name = attributes.join(" × ") || "total";
    return { name, value: share, say: `${name}\n${percent(share)} of the budget` };
  });
  if (sets)
    points.push({
      name: `${fixed(sets, 0)} further`,
      value: rest,
      rest: true,
      say: `${plural(sets, "further set", "further sets")}\n${percent(rest)} of the budget`,
    });
  if (choosing)
    points.push({
      name: "comparing tables",
      value: choosing,
      rest: true,
      say: `comparing tables with their estimates\n${percent(choosing)} of the budget`,
    });
  const label = "Share of the budget per set of attributes";
  body("allocation").append(chart(label, bars(points, { unit: (share) => `${fixed(100 * share, 1)}%` })));
}

// --- what if -----------------------------------------------------------------------------------------------------

function showWhatIf() {
  const { curve, errors } = data;
  const slider = html("input", {
    type: "range",
    id: "epsilon",
    min: 0,
    max: curve.epsilon.length - 1,
    step: 1,
    value: curve.own,
  });
  const output = html("output", { for: "epsilon", id: "chosen-epsilon" });
  const back = html("button", { type: "button" }, "Back to this release");
  const chosen = () => Number(slider.value);
  const factor = () => curve.mu[curve.own] / curve.mu[chosen()];
  const sum = data.plans.length === 1 && data.plans[0].unit === "rmse" && data.plans[0].floor.value > 0;
  const floor = sum ? data.plans[0].floor.value / errors.all.rmse : null;
  const picture = chart("Typical error against epsilon", errorCurve(curve, errors.all.rmse, floor, chosen));
  const rows = [
    ...errors.groups.map((g) => ({ ...g, what: `${g.family} on ${g.where}` })),
    { ...errors.all, what: "All statistics" },
  ];
  const now = aligned(rows.map((group) => group.rmse));
  const cells = rows.map((group, k) => {
    const [typical, largest] = [html("td", { class: "number" }), html("td", { class: "number" })];
    const line = html(
      "tr",
      { class: k === rows.length - 1 ? "sum" : null },
      html("td", {}, group.what),
      html("td", { class: "number" }, now(group.rmse)),
      typical,
      largest,
    );
    return { group, typical, largest, line };
  });
  const shown = (key) => aligned(rows.map((group) => group[key] * factor()));
  const titles = ["Statement", "This release", "Typical error then", "Largest s.e. then"];
  const head = html(
    "tr",
    {},
    ...titles.map((title, k) => html("th", { scope: "col", class: k ? "number" : null }, title)),
  );
  const table = html(
    "table",
    { class: "wide" },
    html("thead", {}, head),
    html("tbody", {}, ...cells.map((c) => c.line)),
  );

  function move() {
    const epsilon = curve.epsilon[chosen()];
    const words = `ε ${figure(epsilon)} (μ ${figure(curve.mu[chosen()])}): errors × ${figure(factor())}`;
    output.textContent = words;
    slider.setAttribute("aria-valuetext", words);
    const [rmse, most] = [shown("rmse"), shown("max_std_error")];
    cells.forEach(({ group, typical, largest }) => {
      typical.textContent = rmse(group.rmse * factor());
      largest.textContent = most(group.max_std_error * factor());
    });
    picture.redraw();
  }
  slider.addEventListener("input", move);
  back.addEventListener("click", () => {
    slider.value = curve.own;
    move();
  });
  const label = html("label", { for: "epsilon" }, `Epsilon, at δ ${data.privacy.delta}`);
  const legend = html(
    "div",
    { class: "legend" },
    html("span", {}, html("i", { class: "swatch-line" }), "typical error (RMSE)"),
    floor ? html("span", {}, html("i", { class: "swatch-floor" }), "proven floor") : null,
    html("span", {}, "○ this release"),
  );
  body("whatif").append(
    html("div", { class: "slider" }, label, slider, output),
    back,
    html("figure", {}, picture, legend),
    scrolling("Errors at the chosen epsilon", table),
  );
  move();
}

// --- the page ----------------------------------------------------------------------------------------------------

function dropSection(name) {
  document.getElementById(name).remove();
  document.querySelector(`[data-needs="${name}"]`).remove();
}

function themed() {
  const button = document.getElementById("theme");
  const dark = () =>
    (document.documentElement.dataset.theme ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const tell = () => button.setAttribute("aria-pressed", String(dark()));
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    tell();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  tell();
}

themed();
if (data.adaptive) showRounds(data.adaptive);
else dropSection("rounds");
showErrors();
showTables();
if (data.distributions.length) showDistributions();
else dropSection("distributions");
showAllocation();
if (data.curve.epsilon.length) showWhatIf();
else dropSection("whatif");
