// The kinds of charts. Each takes points [{name, tick, value, low, high, say}] and gives what `chart` draws.

const LETTER = 6.6; // rough width of a letter in pixels

function yAxis(low, high, width, top, bottom, left) {
  const y = linear(low, high, bottom, top);
  const marks = ticks(low, high, 5).flatMap((t) => [
    line(left, y(t), width, y(t), t === 0 ? "zero" : "axis"),
    text(left - 6, y(t) + 4, fixed(t, decimals((high - low) / 5) > 1 ? 2 : 0), { "text-anchor": "end" }),
  ]);
  return { y, marks };
}

const axisRoom = (low, high) => 14 + LETTER * Math.max(fixed(low, 0).length, fixed(high, 0).length);

// Labels under columns: every k-th where they have an order, slanted where all are needed.
function columnLabels(points, x, step, top, ordered) {
  const names = points.map((p) => cut(p.tick, 16));
  const longest = LETTER * Math.max(...names.map((n) => n.length)) + 8;
  const every = Math.max(1, Math.ceil(longest / step));
  if (every === 1 || ordered || points.length > 40) {
    const shown = names.map((n, k) =>
      k % every ? null : text(x(k) + step / 2, top + 16, n, { "text-anchor": "middle" }),
    );
    return { height: 24, marks: shown.filter((mark) => mark !== null) };
  }
  const slanted = names.map((n, k) => {
    const [cx, cy] = [x(k) + step / 2 + 4, top + 14];
    return text(cx, cy, n, { "text-anchor": "end", transform: `rotate(-40 ${cx} ${cy})` });
  });
  return { height: 20 + longest * 0.66, marks: slanted };
}

const extent = (points) => [
  Math.min(0, ...points.map((p) => p.low ?? p.value)),
  Math.max(0, ...points.map((p) => p.high ?? p.value)),
];

function columns(points, ordered) {
  return (width) => {
    const [low, high] = extent(points);
    const [left, top, bottom] = [axisRoom(low, high), 8, 248];
    const step = (width - left) / points.length;
    const x = (k) => left + k * step;
    const { y, marks } = yAxis(low, high || 1, width, top, bottom, left);
    const gap = step > 6 ? step * 0.15 : 0;
    points.forEach((p, k) => {
      const [a, b] = [Math.min(y(0), y(p.value)), Math.max(y(0), y(p.value))];
      marks.push(
        svg("rect", { x: x(k) + gap, y: a, width: Math.max(0.5, step - 2 * gap), height: b - a, class: "bar-mark" }),
      );
      if (p.low !== undefined && p.high > p.low && step > 3)
        marks.push(whisker(x(k) + step / 2, y(p.low), y(p.high), Math.min(4, step / 4)));
    });
    const labels = columnLabels(points, x, step, bottom, ordered);
    const spots = points.map((p, k) => ({
      x: x(k),
      y: Math.min(y(0), y(p.high ?? p.value)),
      w: step,
      h: Math.abs(y(0) - y(p.high ?? p.value)),
      say: p.say,
    }));
    return { height: bottom + labels.height, marks: [...marks, ...labels.marks], points: spots };
  };
}

function whisker(x, low, high, half) {
  const cap = (y) => `M${x - half},${y}h${2 * half}`;
  return svg("path", { class: "whisker", d: `M${x},${low}V${high}${cap(low)}${cap(high)}` });
}

function bars(points, { room = 0.4, unit = (v) => fixed(v, 0) } = {}) {
  return (width) => {
    const [low, high] = extent(points);
    const most = Math.max(8, Math.floor((width * room) / LETTER));
    const names = points.map((p) => cut(p.name, most));
    const left = 10 + LETTER * Math.max(...names.map((n) => n.length));
    const written = 12 + LETTER * Math.max(...points.map((p) => unit(p.value).length));
    const x = linear(low, high || 1, left, width - written);
    const height = points.length > 40 ? 16 : 24;
    const marks = [line(x(0), 0, x(0), points.length * height, "zero")];
    points.forEach((p, k) => {
      const [top, middle] = [k * height, (k + 0.5) * height];
      const [a, b] = [Math.min(x(0), x(p.value)), Math.max(x(0), x(p.value))];
      marks.push(text(left - 8, middle + 4, names[k], { "text-anchor": "end", class: "name" }));
      marks.push(
        svg("rect", {
          x: a,
          y: top + 3,
          width: b - a,
          height: height - 6,
          class: p.rest ? "bar-mark rest" : "bar-mark",
        }),
      );
      if (p.low !== undefined && p.high > p.low)
        marks.push(
          svg("path", {
            class: "whisker",
            d: `M${x(p.low)},${middle}H${x(p.high)}m0,-4v8M${x(p.low)},${middle - 4}v8`,
          }),
        );
      marks.push(text(width, middle + 4, unit(p.value), { "text-anchor": "end", class: "name" }));
    });
    const spots = points.map((p, k) => ({
      x: left,
      y: k * height + 1,
      w: width - written - left,
      h: height - 2,
      say: p.say,
    }));
    return { height: points.length * height + 4, marks, points: spots };
  };
}

function band(points) {
  return (width) => {
    const [low, high] = extent(points);
    const [left, top, bottom] = [axisRoom(low, high), 8, 208];
    const step = (width - left) / points.length;
    const x = (k) => left + (k + 0.5) * step;
    const { y, marks } = yAxis(low, high || 1, width, top, bottom, left);
    const upper = points.map((p, k) => [x(k), y(p.high)]);
    const lower = points.map((p, k) => [x(k), y(p.low)]).reverse();
    marks.push(svg("path", { class: "band", d: `${path([...upper, ...lower])}Z` }));
    marks.push(svg("path", { class: "curve", d: path(points.map((p, k) => [x(k), y(p.value)])) }));
    const labels = columnLabels(points, (k) => left + k * step, step, bottom, true);
    const spots = points.map((p, k) => ({ x: x(k) - 3, y: y(p.value) - 3, w: 6, h: 6, say: p.say }));
    return { height: bottom + labels.height, marks: [...marks, ...labels.marks], points: spots };
  };
}

// `rows` and `cols` are lists of labels, `cell(r, c)` gives {value, low, say}; `top` has the darkest colour.
function heat(rows, cols, cell, top, ordered) {
  return (width) => {
    const most = Math.max(6, Math.floor((width * 0.3) / LETTER));
    const names = rows.map((r) => cut(r, most));
    const left = 10 + LETTER * Math.max(...names.map((n) => n.length));
    const step = (width - left) / cols.length;
    const height = Math.max(5, Math.min(28, 560 / rows.length, Math.max(step, 18)));
    const skip = Math.ceil(13 / height);
    const marks = [];
    const points = [];
    names.forEach((name, r) => {
      if (r % skip === 0)
        marks.push(text(left - 8, (r + 0.5) * height + 4, name, { "text-anchor": "end", class: "name" }));
      cols.forEach((_, c) => {
        const { value, low, say } = cell(r, c);
        const [x, y, gap] = [left + c * step, r * height, step > 8 && height > 8 ? 1 : 0];
        const box = { x, y, width: Math.max(0.3, step - gap), height: height - gap, class: "cell" };
        const share = Math.max(0, Math.min(1, value / top || 0));
        marks.push(vary(svg("rect", box), "--share", share.toFixed(3)));
        if (low <= 0 && step > 7 && height > 7)
          marks.push(svg("circle", { class: "dot", cx: x + step / 2, cy: y + height / 2, r: 1.5 }));
        points.push({ x, y, w: step - gap, h: height - gap, say });
      });
    });
    const bottom = rows.length * height;
    const labels = columnLabels(
      cols.map((tick) => ({ tick })),
      (k) => left + k * step,
      step,
      bottom,
      ordered,
    );
    return { height: bottom + labels.height, marks: [...marks, ...labels.marks], points, columns: cols.length };
  };
}

// Errors against epsilon, both on logarithmic scales; `chosen()` is the index of the slider.
function errorCurve(curve, error, floor, chosen) {
  const { epsilon, mu, own } = curve;
  const at = (k) => (error * mu[own]) / mu[k];
  return (width) => {
    const end = epsilon.length - 1;
    const [left, top, bottom] = [axisRoom(0, at(0)), 10, 250];
    const least = (floor ? Math.min(1, floor) : 1) * at(end);
    const x = logarithmic(epsilon[0], epsilon[end], left + 6, width - 8);
    const y = logarithmic(least, at(0), bottom, top);
    const wide = width > 480;
    const marks = logTicks(epsilon[0], epsilon[end])
      .flatMap((t) => [
        line(x(t), top, x(t), bottom, "axis"),
        wide || /^[0.]*1/.test(String(t)) ? text(x(t), bottom + 16, figure(t), { "text-anchor": "middle" }) : null,
      ])
      .filter((mark) => mark !== null);
    for (const t of logTicks(least, at(0))) {
      marks.push(line(left, y(t), width, y(t), "axis"), text(left - 6, y(t) + 4, figure(t), { "text-anchor": "end" }));
    }
    marks.push(text(width - 8, bottom + 34, "ε", { "text-anchor": "end", class: "name" }));
    if (floor) marks.push(svg("path", { class: "floor", d: path(epsilon.map((e, k) => [x(e), y(at(k) * floor)])) }));
    marks.push(svg("path", { class: "curve", d: path(epsilon.map((e, k) => [x(e), y(at(k))])) }));
    marks.push(svg("circle", { class: "here", cx: x(epsilon[own]), cy: y(at(own)), r: 6 }));
    marks.push(svg("circle", { class: "chosen", cx: x(epsilon[chosen()]), cy: y(at(chosen())), r: 6 }));
    const points = epsilon.map((e, k) => ({
      x: x(e) - 3,
      y: y(at(k)) - 3,
      w: 6,
      h: 6,
      say: `ε ${figure(e)}\nRMSE ${figure(at(k))}`,
    }));
    return { height: bottom + 40, marks, points };
  };
}
