// All tables: search, the one that is open, links to it, files and embedding.

const LISTED = 60; // entries of the list at first

// What can be searched of an attribute: its name, its values and the groups above them.
function textOf(attribute) {
  attribute.text ??= [attribute.name, ...attribute.labels, ...attribute.levels.flatMap((l) => [l.name, ...l.labels])]
    .join("\n")
    .toLowerCase();
  return attribute.text;
}

// Every word must be in a name or a value; tables with the words in their names come first.
function found(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = [];
  for (const table of catalogue) {
    const names = namesOf(table).join("\n").toLowerCase();
    if (words.every((word) => names.includes(word) || table.attributes.some((a) => textOf(a).includes(word)))) {
      hits.push({ table, strength: words.filter((word) => names.includes(word)).length });
    }
  }
  return hits.sort((a, b) => b.strength - a.strength || a.table.place - b.table.place).map(({ table }) => table);
}

function entryOf(table) {
  const size = plural(cellCount(table), "cell", "cells") + (completed(table) ? ", completed" : "");
  const words = [named(captionOf(namesOf(table))), html("span", { class: "size" }, size)];
  const link = html("a", { href: `#table/${table.id}` }, ...words);
  link.dataset.id = table.id;
  return html("li", {}, link);
}

function finder() {
  const input = html("input", { type: "search", id: "search", autocomplete: "off", placeholder: "name or value" });
  const status = html("p", { class: "note", role: "status" });
  const list = html("ul", { class: "entries" });
  const more = moreButton("Show all", () => refill(Infinity));
  let hits = catalogue;
  function refill(most = LISTED) {
    list.replaceChildren(...hits.slice(0, most).map(entryOf));
    more.hidden = hits.length <= most;
    status.textContent = hits.length === catalogue.length ? plural(hits.length, "table", "tables") : `${fixed(hits.length, 0)} of ${plural(catalogue.length, "table", "tables")}`;
    marked();
  }
  function marked() {
    list.querySelectorAll("a").forEach((link) => {
      if (link.dataset.id === finder.open) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  }
  input.addEventListener("input", () => {
    hits = found(input.value);
    refill();
  });
  refill();
  const all = moreButton("Download all tables", saveAll);
  all.id = "download-all";
  const label = html("label", { for: "search" }, "Search tables");
  const view = html("nav", { class: "finder", "aria-label": "Tables" }, label, input, status, list, more, all);
  view.marked = marked;
  return view;
}

// --- one table -----------------------------------------------------------------------------------------------------------

const address = (kind, table) => `${location.href.split("#")[0]}#${kind}/${table.id}`;
const escaped = (words) => words.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
const snippet = (table) =>
  `<iframe src="${escaped(address("embed", table))}" title="${escaped(captionOf(namesOf(table)))}" width="100%" height="480" loading="lazy"></iframe>`;

function copyable(label, words) {
  const input = html("input", { type: "text", readonly: true, value: words });
  const status = html("span", { class: "note", role: "status" });
  const copy = moreButton("Copy", async () => {
    input.select();
    try {
      await navigator.clipboard.writeText(words);
      status.textContent = "Copied.";
    } catch {
      status.textContent = "Selected; copy it with the keyboard.";
    }
  });
  copy.setAttribute("aria-label", `Copy: ${label}`);
  return html("div", { class: "copyable" }, html("label", {}, label, input), copy, status);
}

// Contents that are made when they are looked at for the first time.
function folded(title, id, make) {
  const details = html("details", { id }, html("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(...[make()].flat());
  });
  return details;
}

function sheetOf(table) {
  const download = moreButton("Download as CSV", () => save(table.file, csv(table)));
  download.id = "download";
  const print = moreButton("Print", () => window.print());
  const title = html("h3", { id: "table-title", tabindex: "-1" }, named(captionOf(namesOf(table))));
  const kind = adjusted(table)
    ? html("p", { class: "kind-of completed" }, data.adjusted.footnotes[0])
    : data.adaptive ? kindOf(!completed(table)) : null;
  const cells = () => cellsOf(table);
  const picture = () => (table.attributes.length === 1 ? oneWay(table, cells()) : manyWay(table, cells()));
  const share = () => [
    copyable("Link to this table", address("table", table)),
    copyable("To embed it in a page", snippet(table)),
  ];
  return html(
    "article",
    { class: "sheet", "aria-labelledby": "table-title" },
    html("div", { class: "sheet-head" }, title, html("div", { class: "tools" }, download, print)),
    kind,
    crossView(table),
    adjusted(table) ? null : folded("Chart", "chart", picture),
    folded(adjusted(table) ? "All cells" : "All cells, with standard errors and intervals", "cells-list", () => cellTable(table, cells())),
    folded("Link and embed", "share", share),
  );
}

function sourceLine() {
  const words = [data.publication?.publisher, document.querySelector("h1").textContent].filter(Boolean).join(", ");
  const link = html("a", { href: location.href.split("#")[0], target: "_blank", rel: "noopener" }, words);
  return html("p", { class: "source" }, "Source: ", link, ". Numbers have noise that protects privacy.");
}

function showTables() {
  if (!catalogue.length) {
    body("tables").append(html("p", {}, "No table of this release is small enough to be shown here."));
    return;
  }
  const [list, place] = [finder(), html("div", { class: "place" })];
  body("tables").append(html("div", { class: "catalogue" }, list, place), sourceLine());
  const heading = document.title;
  const byId = new Map(catalogue.map((table) => [table.id, table]));

  function show(table) {
    finder.open = table.id;
    place.replaceChildren(sheetOf(opened(table)));
    list.marked();
    const entry = list.querySelector("[aria-current]");
    if (entry) entry.closest("ul").scrollTop = entry.offsetTop - entry.closest("ul").offsetTop - 60; // not the page
  }
  // #table/2-age_sex opens a table, #embed/2-age_sex shows nothing else; other fragments are places in the page.
  function follow(jump) {
    const [, kind, id] = /^#(table|embed)\/(.+)$/.exec(location.hash) ?? [];
    document.documentElement.classList.toggle("embed", kind === "embed");
    if (!byId.has(id)) {
      if (location.hash.length > 1) reveal(location.hash.slice(1));
      return Boolean(finder.open);
    }
    show(byId.get(id));
    document.title = `${captionOf(namesOf(byId.get(id)))} – ${heading}`;
    if (jump && kind === "table") document.getElementById("table-title").focus();
    return true;
  }
  if (!follow(false)) show(catalogue.find((table) => table.attributes.length === 2) ?? catalogue[0]);
  if (location.hash.startsWith("#table/")) document.getElementById("table-title").focus();
  window.addEventListener("hashchange", () => follow(true));
}

// Opens what a link inside the page leads to.
function reveal(id) {
  const target = document.getElementById(id);
  const closed = target?.closest("details");
  if (!closed || closed.open) return;
  closed.open = true;
  target.scrollIntoView();
}
