// The numbers of the page. Every table is a line of text until somebody opens it.

const data = JSON.parse(document.getElementById("data").textContent);
const lines = document.getElementById("cells").textContent.split("\n");
const level = percent(data.confidence);
const body = (name) => document.getElementById(`${name}-body`);
const counted = data.publication?.counted ?? "rows";

data.attributes.forEach((attribute) => (attribute.levels ??= []));
const catalogue = [...data.tables, ...(data.adaptive?.completed ?? [])].map((table, place) => ({
  ...table,
  place,
  id: table.file.replace(/\.csv$/, ""),
  numbers: table.attributes,
  attributes: table.attributes.map((a) => data.attributes[a]),
}));
const sizesOf = (table) => table.attributes.map((attribute) => attribute.size);
const cellCount = (table) => sizesOf(table).reduce((a, b) => a * b, 1);

// Counts, and errors of single cells and of sums; completed tables have no errors.
function opened(table) {
  if (!table.counts) {
    const [counts, errors] = JSON.parse(lines[table.place]);
    const numbers = adjusted(table) ? counts.map((count) => count ?? NaN) : counts;
    Object.assign(table, { counts: numbers, std_errors: errors, known: new Map() });
  }
  return table;
}

const completed = (table) => table.kind === "completed";
const adjusted = (table) => table.kind === "adjusted";
const biased = (table) => completed(table) || adjusted(table); // without errors
const IMPOSSIBLE = "–"; // stands for a cell that cannot have rows
const LEFT_OUT = "x"; // stands for a cell that is left out; its number is NaN
const errorAt = ({ std_errors: errors }, k) => (Array.isArray(errors) ? errors[k] : errors);
const ticksOf = (attribute) => attribute.ticks ?? attribute.labels;
const printed = (value) => (Number.isNaN(value) ? LEFT_OUT : fixed(value, Number.isInteger(value) ? 0 : 1));
const namesOf = (table) => table.attributes.map((attribute) => attribute.name);
const titleOf = (table) => namesOf(table).join(" × ");

const listed = (names) => (names.length < 3 ? names.join(" and ") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
const captionOf = ([first, ...others]) => (others.length ? `${first} by ${listed(others)}` : first);

// --- levels: 0 is all values together, the last one single values -------------------------------------------------

const depthOf = (attribute) => attribute.levels.length + 1;
const levelName = (attribute, k) => (k < depthOf(attribute) ? attribute.levels[k - 1].name : (attribute.leaf ?? "values"));

function groupsOf(attribute, k) {
  if (k === 0) return { labels: ["Total"], starts: [0] };
  if (k < depthOf(attribute)) return attribute.levels[k - 1];
  attribute.leaves ??= { labels: attribute.labels, starts: attribute.labels.map((_, code) => code) };
  return attribute.leaves;
}

function endOf(attribute, k, group) {
  const { starts } = groupsOf(attribute, k);
  return group + 1 < starts.length ? starts[group + 1] : attribute.size;
}

// Groups of the next level inside a group.
function childrenOf(attribute, k, group) {
  const [start, end] = [groupsOf(attribute, k).starts[group], endOf(attribute, k, group)];
  return groupsOf(attribute, k + 1).starts.flatMap((at, child) => (at >= start && at < end ? [child] : []));
}

function summed(values, shape, axis, starts) {
  const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
  const outer = shape.slice(0, axis).reduce((a, b) => a * b, 1);
  const sums = new Float64Array(outer * starts.length * inner);
  for (let o = 0; o < outer; o++) {
    for (let code = 0, group = 0; code < shape[axis]; code++) {
      if (group + 1 < starts.length && code === starts[group + 1]) group++;
      const [from, to] = [(o * shape[axis] + code) * inner, (o * starts.length + group) * inner];
      for (let i = 0; i < inner; i++) sums[to + i] += values[from + i];
    }
  }
  return sums;
}

// Errors of sums, which are those of a smaller table where the page has it.
function errorsOf(table, levels) {
  if (biased(table)) return null;
  const key = levels.flatMap((k, axis) => (k ? [`${table.numbers[axis]}:${k}`] : [])).join(",");
  if (key in data.sums) return data.sums[key];
  const kept = table.numbers.filter((_, axis) => levels[axis]);
  const whole = levels.every((k, axis) => k === 0 || k === depthOf(table.attributes[axis]));
  const other = whole && catalogue.find((t) => !completed(t) && t.numbers.join() === kept.join());
  return other ? opened(other).std_errors : null;
}

// Sums of an adjusted table as a smaller one prints them, with one group where an attribute is added up.
function printedAt(table, levels) {
  if (!levels.every((k, axis) => k === 0 || k === depthOf(table.attributes[axis]))) return null;
  const kept = table.numbers.filter((_, axis) => levels[axis]);
  const shape = levels.map((k, axis) => (k ? table.attributes[axis].size : 1));
  if (!kept.length && data.adjusted.total !== null) return { shape, counts: [data.adjusted.total], std_errors: null };
  const other = kept.length < levels.length && catalogue.find((t) => t.numbers.join() === kept.join());
  return other ? { shape, counts: opened(other).counts, std_errors: null } : null;
}

// The table with each attribute at a level: {shape, counts, errors}; errors are null where there are none.
function tableAt(table, levels) {
  const key = levels.join(",");
  const printed = adjusted(table) && printedAt(table, levels);
  if (printed) return printed;
  if (!table.known.has(key)) {
    let [counts, shape] = [table.counts, sizesOf(table)];
    levels.forEach((k, axis) => {
      const { starts } = groupsOf(table.attributes[axis], k);
      if (k < depthOf(table.attributes[axis])) counts = summed(counts, shape, axis, starts);
      shape = shape.map((size, at) => (at === axis ? starts.length : size));
    });
    table.known.set(key, { shape, counts, std_errors: errorsOf(table, levels) });
  }
  return table.known.get(key);
}

// How many cells that can have rows are in each group; null where all can.
function possibleAt(table, levels) {
  if (!table.impossible) return null;
  const key = `possible ${levels.join(",")}`;
  if (!table.known.has(key)) {
    let [possible, shape] = [new Float64Array(cellCount(table)).fill(1), sizesOf(table)];
    table.impossible.forEach((k) => (possible[k] = 0));
    levels.forEach((k, axis) => {
      const { starts } = groupsOf(table.attributes[axis], k);
      if (k < depthOf(table.attributes[axis])) possible = summed(possible, shape, axis, starts);
      shape = shape.map((size, at) => (at === axis ? starts.length : size));
    });
    table.known.set(key, possible);
  }
  return table.known.get(key);
}

function cellAt(table, levels, groups) {
  const [block, possible] = [tableAt(table, levels), possibleAt(table, levels)];
  const k = groups.reduce((at, group, axis) => at * block.shape[axis] + group, 0);
  if (possible !== null && possible[k] === 0) return { value: 0, error: null, impossible: true };
  return { value: block.counts[k], error: errorAt(block, k) };
}

// --- single cells -------------------------------------------------------------------------------------------------

function codesOf(table, k) {
  const codes = [];
  for (let axis = table.attributes.length - 1; axis >= 0; axis--) {
    const { size } = table.attributes[axis];
    codes.unshift(k % size);
    k = Math.floor(k / size);
  }
  return codes;
}

const labelOf = (table, axis, code) => table.attributes[axis].labels[code];

// Half of an interval. Whole numbers have whole noise (docs/proofs.md): it reaches at least the nearest whole number.
function spreadOf(value, error) {
  const spread = data.width * error;
  return Number.isInteger(value) ? Math.max(spread, Math.ceil(spread - 0.5)) : spread;
}

function interval(name, value, error) {
  if (error === null && data.adjusted) return { value, say: `${name}\n${printed(value)}\nadjusted for readers` };
  if (error === null) return { value, say: `${name}\nabout ${fixed(value, 1)}\ncompleted: a biased guess` };
  const digits = decimals(error);
  const spread = spreadOf(value, error);
  const [low, high] = [value - spread, value + spread];
  const words = `${name}\n${fixed(value, digits)} ± ${fixed(spread, digits)}`;
  const range =
    error > 0
      ? `\n${level} interval: ${fixed(low, digits)} to ${fixed(high, digits)}\ns.e. ${figure(error)}`
      : "\nexact";
  return { value, low, high, say: words + range };
}

function cellsOf(table) {
  return table.counts.map((count, k) => {
    const codes = codesOf(table, k);
    const name = codes.map((code, axis) => `${table.attributes[axis].name} ${labelOf(table, axis, code)}`).join(", ");
    return { codes, error: errorAt(table, k), ...interval(name, count, errorAt(table, k)) };
  });
}
