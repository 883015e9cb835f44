// Tables that can be sorted: lists of cells, of statements, of rounds.

const ROWS = 25; // of a long table that are shown at first

function scrolling(label, node) {
  return html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, node);
}

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

function cellTable(table, cells) {
  const digits = biased(table) ? 1 : decimals(cells.reduce((least, cell) => Math.min(least, cell.error), Infinity));
  const names = table.attributes.map((attribute, axis) => ({
    title: attribute.name,
    key: (cell) => (attribute.ordered ? cell.codes[axis] : labelOf(table, axis, cell.codes[axis])),
    show: (cell) => labelOf(table, axis, cell.codes[axis]),
  }));
  const numbers = [
    ["Count", "value"],
    ["Std. error", "error"],
    ["Low", "low"],
    ["High", "high"],
  ]
    .slice(0, biased(table) ? 1 : 4)
    .map(([title, key]) => ({
      title,
      number: true,
      key: (cell) => cell[key],
      show: (cell) => adjusted(table) ? printed(cell.value) : fixed(cell[key], key === "error" ? Math.max(1, digits) : digits),
    }));
  return sortable(`Cells of ${titleOf(table)}`, [...names, ...numbers], cells);
}
