// The part for reviewers: how accurate it is, where the budget went, and what another budget would have given.

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
