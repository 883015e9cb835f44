// A table as a picture, and the distributions of attributes with an order.

function oneWay(table, cells) {
  const attribute = table.attributes[0];
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
  const sizes = sizesOf(table);
  const order = sizes.map((_, axis) => axis).sort((a, b) => sizes[b] - sizes[a] || a - b);
  const [across, down, ...fixedAxes] = order;
  const [wide, tall] = [across, down].map((axis) => table.attributes[axis]);
  const chosen = sizes.map(() => 0);
  const top = table.counts.reduce((a, b) => Math.max(a, b), 0);
  const cell = (r, c) => {
    const codes = chosen.map((code, axis) => (axis === across ? c : axis === down ? r : code));
    return cells[codes.reduce((k, code, axis) => k * sizes[axis] + code, 0)];
  };
  const caption = `Counts by ${tall.name} (down) and ${wide.name} (across)`;
  const picture = chart(caption, heat(tall.labels, ticksOf(wide), cell, top, wide.ordered));
  const selects = fixedAxes.map((axis) => {
    const attribute = table.attributes[axis];
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
    biased(table) ? null : html("span", {}, "• the interval includes zero"),
  );
  const controls = selects.length ? html("div", { class: "controls" }, ...selects) : null;
  return html("figure", {}, html("figcaption", {}, caption), controls, picture, legend);
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
