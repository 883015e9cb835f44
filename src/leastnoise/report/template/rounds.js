// How an adaptive release was measured: its rounds, and what to expect of each table that was asked for.

const FEW_ROUNDS = 12; // up to which the chart has two bars for each

const KINDS = {
  measured: "Measured: unbiased, with exact errors.",
  completed: "Completed: not measured, a biased guess from the measured tables. It has no intervals.",
};

function kindOf(measured) {
  const kind = measured ? "measured" : "completed";
  return html("p", { class: `kind-of ${kind}` }, KINDS[kind]);
}

function namedTables({ named, tables }) {
  const words = named.map((names) => names.join(" × ") || "total").join(", ");
  return tables > named.length ? `${words} and ${fixed(tables - named.length, 0)} more` : words || "nothing";
}

function roundPoints(rounds) {
  const say = (k, what, share) => `Round ${k + 1}: ${what}\n${percent(share)} of the budget`;
  if (rounds.length > FEW_ROUNDS) {
    return rounds.map((r, k) => ({
      tick: String(k + 1),
      value: 100 * (r.choosing + r.measuring),
      say: say(k, `${percent(r.choosing)} comparing, then measuring ${namedTables(r)}`, r.choosing + r.measuring),
    }));
  }
  return rounds.flatMap((r, k) => [
    ...(r.choosing
      ? [
          {
            name: `Round ${k + 1}: comparing`,
            value: r.choosing,
            rest: true,
            say: say(k, `comparing ${plural(r.compared, "table", "tables")}`, r.choosing),
          },
        ]
      : []),
    ...(r.measuring
      ? [{ name: `Round ${k + 1}: measuring`, value: r.measuring, say: say(k, namedTables(r), r.measuring) }]
      : []),
  ]);
}

function roundChart(rounds) {
  const points = roundPoints(rounds);
  const few = rounds.length <= FEW_ROUNDS;
  const caption = few ? "Share of the budget (μ²) in each round" : "Percent of the budget (μ²) in each round";
  const draw = few ? bars(points, { unit: (share) => `${fixed(100 * share, 1)}%` }) : columns(points, true);
  return html("figure", {}, html("figcaption", {}, caption), chart(caption, draw));
}

function roundTable(rounds) {
  const rows = rounds.map((r, k) => ({ ...r, k }));
  const columns = [
    { title: "Round", key: (r) => r.k, show: (r) => fixed(r.k + 1, 0) },
    { title: "Tables compared", number: true, minor: true, key: (r) => r.compared, show: (r) => fixed(r.compared, 0) },
    { title: "Cost", number: true, minor: true, key: (r) => r.choosing, show: (r) => percent(r.choosing) },
    { title: "Measured, with all smaller tables", key: (r) => r.tables, show: namedTables },
    { title: "Cost of measuring", number: true, key: (r) => r.measuring, show: (r) => percent(r.measuring) },
  ];
  return sortable("Rounds", columns, rows, { wide: true });
}

function workloadTable({ listed, tables }) {
  const rows = listed.map((t) => ({ ...t, what: t.attributes.join(" × ") || "total" }));
  const expected = aligned(rows.map((t) => t.expected));
  const known = (show) => (t) => (t.expected === null ? "–" : show(t.expected));
  const columns = [
    { title: "Table", key: (t) => t.what, show: (t) => t.what },
    { title: "How", key: (t) => !t.measured, show: (t) => (t.measured ? "measured" : "completed") },
    { title: "Expected error", number: true, key: (t) => t.expected, show: known(expected) },
  ];
  if (data.total && data.total[0] > 0) {
    const share = (x) => percent(x / data.total[0]);
    columns.push({ title: "Of the rows", number: true, key: (t) => t.expected, show: known(share) });
  }
  const more = tables > listed.length ? ` The ${fixed(listed.length, 0)} with the largest errors are listed.` : "";
  const note = `Expected error: errors of all statistics of the table together, in rows; an estimate.${more}`;
  return [
    html("h4", {}, "The tables that were asked for"),
    sortable("Tables asked for", columns, rows, { wide: true, most: 10 }),
    html("p", { class: "note" }, note),
  ];
}

function showRounds(record) {
  const { rounds, tables, measured, method } = record;
  const how = method === "survey" ? "Surveys looked at all candidates at once" : "Each round chose one table";
  const rest = tables - measured;
  const words = `${how}. Of ${plural(tables, "table", "tables")} asked for, ${fixed(measured, 0)} were measured`;
  body("rounds").append(
    html("p", {}, rest ? `${words}; the other ${fixed(rest, 0)} can be completed from them.` : `${words}.`),
    roundChart(rounds),
    roundTable(rounds),
    ...workloadTable(record),
    ...(rest ? [kindOf(true), kindOf(false)] : []),
  );
}
