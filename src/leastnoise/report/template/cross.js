// Tables as offices print them: rows, columns, totals, and levels of hierarchies that open.

const [FEW_ROWS, MORE_ROWS] = [60, 500]; // shown at first, and by each press of "more"
const [FEW_COLUMNS, MORE_COLUMNS] = [24, 60];
const SPANNED = 24; // columns up to which a third attribute stands above them

// Which attribute goes where: the longest down, the shortest across, a third one above where there is room.
function arranged(table) {
  const { attributes } = table;
  const size = (axis) => groupsOf(attributes[axis], 1).labels.length;
  const axes = attributes.map((_, axis) => axis);
  const deep = (axis) => depthOf(attributes[axis]);
  const [rows, ...others] = axes.sort((a, b) => deep(b) - deep(a) || size(b) - size(a) || a - b);
  const [columns, ...rest] = others.sort((a, b) => size(a) - size(b) || a - b);
  return {
    rows,
    columns: columns ?? null,
    filters: rest,
    levels: attributes.map(() => 1),
    chosen: attributes.map(() => null), // of filters; null is all values together
    open: new Set(),
    errors: false,
    shownRows: FEW_ROWS,
    shownColumns: FEW_COLUMNS,
  };
}

function spannedAxis(table, { columns, filters, levels, chosen }) {
  if (filters.length !== 1 || chosen[filters[0]] !== null) return null;
  const count = (axis) => groupsOf(table.attributes[axis], levels[axis]).labels.length + 1;
  return count(columns) * count(filters[0]) <= SPANNED ? filters[0] : null;
}

// Groups of an axis with their total first, as [level, group].
function withTotal(attribute, k) {
  return [[0, 0], ...groupsOf(attribute, k).labels.map((_, group) => [k, group])];
}

function rowsOf(attribute, state) {
  const rows = [{ at: [0, 0], indent: 0 }];
  const add = ([k, group], indent) => {
    const inside = k < depthOf(attribute) && endOf(attribute, k, group) - groupsOf(attribute, k).starts[group] > 1;
    const key = `${k},${group}`;
    rows.push({ at: [k, group], indent, inside, key });
    if (inside && state.open.has(key)) {
      childrenOf(attribute, k, group).forEach((child) => add([k + 1, child], indent + 1));
    }
  };
  const k = state.levels[state.rows];
  groupsOf(attribute, k).labels.forEach((_, group) => add([k, group], 0));
  return rows;
}

// Columns as [level, group] of each axis that stands across.
function columnsOf(table, state, span) {
  const places = (axis) => withTotal(table.attributes[axis], state.levels[axis]).map((at) => ({ axis, at }));
  if (state.columns === null) return [[]];
  const inner = places(state.columns);
  return span === null ? inner.map((c) => [c]) : places(span).flatMap((s) => inner.map((c) => [s, c]));
}

const labelAt = (table, axis, [k, group]) => groupsOf(table.attributes[axis], k).labels[group];
const named = (words) => html("bdi", {}, words);

// --- numbers with as many digits as their error allows -------------------------------------------------------------

function roundingStep(table) {
  const errors = [table.std_errors].flat().filter((error) => error > 0);
  const least = errors.reduce((a, b) => Math.min(a, b), Infinity);
  return Number.isFinite(least) ? Math.max(1, 10 ** (Math.floor(Math.log10(least)) - 1)) : 1;
}

const rounded = (x, step) => fixed(Math.round(x / step) * step, 0);
const reach = (x, step) => (x < 10 ? fixed(x, x < 1 ? 2 : 1) : rounded(x, step));

function cellOf({ value, error, impossible }, step, withErrors) {
  if (impossible) return html("td", { class: "number" }, IMPOSSIBLE);
  if (data.adjusted) return html("td", { class: "number" }, printed(value));
  const shown = rounded(value, step);
  const doubtful = error !== null && Math.abs(value) < spreadOf(value, error);
  const far = error > 0 ? `± ${reach(spreadOf(value, error), step)}` : "exact";
  const more = withErrors && error !== null ? [" ", html("small", {}, far)] : [];
  return html("td", { class: doubtful ? "number faint" : "number" }, shown, ...more);
}

// --- the parts of a table --------------------------------------------------------------------------------------------

function headOf(table, state, span, columns) {
  const rowName = table.attributes[state.rows].name;
  const corner = (rows) => html("th", { scope: "col", rowspan: rows, class: "corner" }, named(rowName));
  if (state.columns === null) {
    return [html("tr", {}, corner(1), html("th", { scope: "col", class: "number" }, `Number of ${counted}`))];
  }
  const names = (span === null ? [state.columns] : [span, state.columns]).map((axis) => table.attributes[axis].name);
  const title = html("th", { scope: "colgroup", colspan: columns.length, class: "across" }, named(names.join(", then ")));
  const last = columns.map((column) => {
    const { axis, at } = column[column.length - 1];
    return html("th", { scope: "col", class: at[0] ? "number" : "number sum" }, named(labelAt(table, axis, at)));
  });
  if (span === null) return [html("tr", {}, corner(2), title), html("tr", {}, ...last)];
  const above = [];
  columns.forEach(([s]) => {
    const label = labelAt(table, span, s.at);
    const same = above.length && above[above.length - 1].place === s;
    if (same) above[above.length - 1].count++;
    else above.push({ place: s, label, count: 1 });
  });
  const groups = above.map(({ label, count }) => html("th", { scope: "colgroup", colspan: count, class: "group" }, named(label)));
  return [html("tr", {}, corner(3), title), html("tr", {}, ...groups), html("tr", {}, ...last)];
}

function rowHead(table, state, row, redraw) {
  const label = labelAt(table, state.rows, row.at);
  const head = html("th", { scope: "row", class: row.at[0] ? null : "sum" });
  vary(head, "--indent", String(row.indent));
  if (!row.inside) {
    head.append(html("span", { class: depthOf(table.attributes[state.rows]) > 1 && row.at[0] ? "leaf" : null }, named(label)));
    return head;
  }
  const open = state.open.has(row.key);
  const button = html("button", { type: "button", class: "opens", "aria-expanded": String(open) }, named(label));
  button.dataset.key = row.key;
  button.addEventListener("click", () => {
    if (open) state.open.delete(row.key);
    else state.open.add(row.key);
    redraw(row.key);
  });
  head.append(button);
  return head;
}

function notesOf(table, shown, step) {
  const dashes = shown.some(({ impossible }) => impossible) ? [`${IMPOSSIBLE}: nobody can be there, so it is 0 without error.`] : [];
  return [...dashes, ...otherNotes(table, shown.filter(({ impossible }) => !impossible), step)];
}

function otherNotes(table, shown, step) {
  if (completed(table)) return [KINDS.completed];
  if (adjusted(table)) {
    const gone = shown.some(({ value }) => Number.isNaN(value));
    return [...(gone ? [`${LEFT_OUT}: left out, as the number would be too small or too unreliable.`] : []), ...data.adjusted.footnotes];
  }
  const known = shown.filter(({ error }) => error !== null).map(({ value, error }) => spreadOf(value, error));
  const ends = [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), 0)];
  const [least, most] = ends.map((spread) => reach(spread, step));
  const notes = [];
  if (ends[1] > 0) {
    const size = least === most ? `± ${most}` : `between ± ${least} and ± ${most}`;
    notes.push(`Each number is within its error of the true one in ${Number((100 * data.confidence).toPrecision(4))} of 100 cases; here that is ${size}.`);
  }
  if (shown.some(({ value }) => Math.round(value / step) < 0)) {
    notes.push("Numbers below zero come from the noise: read them as a number close to zero.");
  }
  if (shown.some(({ value, error }) => error > 0 && Math.abs(value) < spreadOf(value, error))) {
    notes.push("Grey numbers are so small that they cannot be told from zero.");
  }
  const to = step > 1 ? `to ${fixed(step, 0)}, as the noise allows` : "to whole numbers";
  notes.push(`Rounded ${to}; parts may differ slightly from their total for that reason.`);
  return notes;
}

// A table element and what it shows, for a state.
function crossTable(table, state, redraw) {
  const span = state.columns === null ? null : spannedAxis(table, state);
  const attribute = table.attributes[state.rows];
  const [allRows, allColumns] = [rowsOf(attribute, state), columnsOf(table, state, span)];
  const columns = span === null ? allColumns.slice(0, state.shownColumns) : allColumns;
  const rows = allRows.slice(0, state.shownRows);
  const step = roundingStep(table);
  const [levels, groups] = [table.attributes.map(() => 0), table.attributes.map(() => 0)];
  const place = (axis, [k, group]) => ([levels[axis], groups[axis]] = [k, group]);
  state.filters.forEach((axis) => {
    place(axis, state.chosen[axis] === null ? [0, 0] : [state.levels[axis], state.chosen[axis]]);
  });
  const shown = [];
  const drawn = rows.map((row) => {
    place(state.rows, row.at);
    const cells = columns.map((column) => {
      column.forEach(({ axis, at }) => place(axis, at));
      shown.push(cellAt(table, levels, groups));
      return cellOf(shown[shown.length - 1], step, state.errors);
    });
    return html("tr", { class: row.at[0] ? null : "sum" }, rowHead(table, state, row, redraw), ...cells);
  });
  const caption = html("caption", {}, `Number of ${counted} by `, named(listed(namesOf(table))));
  const element = html(
    "table",
    { class: state.errors ? "cross with-errors" : "cross" },
    caption,
    html("thead", {}, ...headOf(table, state, span, columns)),
    html("tbody", {}, ...drawn),
  );
  const left = { rows: allRows.length - rows.length, columns: allColumns.length - columns.length };
  return { element, left, notes: notesOf(table, shown, step) };
}

// --- controls --------------------------------------------------------------------------------------------------------

const choice = (label, options, value, change) => {
  const select = html("select", {}, ...options.map(([key, words]) => html("option", { value: key }, words)));
  select.value = String(value);
  select.addEventListener("change", () => change(select.value));
  return html("label", {}, label, select);
};

function levelChoice(attribute, state, axis, redraw) {
  if (attribute.levels.length === 0) return null;
  const options = Array.from({ length: depthOf(attribute) }, (_, k) => [k + 1, levelName(attribute, k + 1)]);
  return choice(`Level of ${attribute.name}`, options, state.levels[axis], (k) => {
    state.levels[axis] = Number(k);
    state.chosen[axis] = null;
    state.open.clear();
    redraw();
  });
}

// Puts an attribute into a role; the one that had it goes where the other came from.
function swap(state, role, axis) {
  const before = state[role];
  if (axis === before) return;
  const other = role === "rows" ? "columns" : "rows";
  if (state[other] === axis) state[other] = before;
  else state.filters = state.filters.map((filter) => (filter === axis ? before : filter));
  state[role] = axis;
  state.chosen[axis] = null;
  state.open.clear();
}

function controlsOf(table, state, redraw) {
  const axes = table.attributes.map((attribute, axis) => [axis, attribute.name]);
  const roles = state.columns === null ? [] : [["rows", "Rows"], ["columns", "Columns"]];
  const picks = roles.map(([role, label]) =>
    choice(label, axes, state[role], (axis) => {
      swap(state, role, Number(axis));
      redraw();
    }),
  );
  const filters = state.filters.map((axis) => {
    const attribute = table.attributes[axis];
    const values = groupsOf(attribute, state.levels[axis]).labels.map((label, group) => [group, label]);
    return choice(attribute.name, [["", "all"], ...values], state.chosen[axis] ?? "", (group) => {
      state.chosen[axis] = group === "" ? null : Number(group);
      redraw();
    });
  });
  const levels = axes.map(([axis]) => levelChoice(table.attributes[axis], state, axis, redraw));
  const box = html("input", { type: "checkbox" });
  box.checked = state.errors;
  box.addEventListener("change", () => {
    state.errors = box.checked;
    redraw();
  });
  const errors = biased(table) ? null : html("label", { class: "tick" }, box, `Show ± (${level})`);
  return html("div", { class: "controls" }, ...picks, ...filters, ...levels, errors);
}

function moreButton(words, press) {
  const button = html("button", { type: "button" }, words);
  button.addEventListener("click", press);
  return button;
}

// The cross table of a table with its controls; it draws itself anew after every change.
function crossView(table) {
  const state = arranged(table);
  const view = html("div", { class: "crossed" });
  function draw(focus = null) {
    const { element, left, notes } = crossTable(table, state, draw);
    const more = [
      left.rows ? moreButton(`Show ${fixed(Math.min(left.rows, MORE_ROWS), 0)} more of ${plural(left.rows, "further row", "further rows")}`, () => {
        state.shownRows += MORE_ROWS;
        draw();
      }) : null,
      left.columns ? moreButton(`Show ${fixed(Math.min(left.columns, MORE_COLUMNS), 0)} more of ${plural(left.columns, "further column", "further columns")}`, () => {
        state.shownColumns += MORE_COLUMNS;
        draw();
      }) : null,
    ].filter((button) => button !== null);
    const focused = document.activeElement?.closest(".controls label")?.firstChild?.textContent;
    view.replaceChildren(
      controlsOf(table, state, draw),
      scrolling(`Table: ${captionOf(namesOf(table))}`, element),
      html("div", { class: "more" }, ...more),
      html("ul", { class: "footnotes" }, ...notes.map((words) => html("li", {}, words))),
    );
    if (focus !== null) [...view.querySelectorAll(".opens")].find((b) => b.dataset.key === focus)?.focus();
    else if (focused) [...view.querySelectorAll(".controls label")].find((l) => l.firstChild.textContent === focused)?.querySelector("select, input")?.focus();
  }
  draw();
  return view;
}
