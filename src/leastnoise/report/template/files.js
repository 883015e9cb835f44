// Tables as files: CSV, and a zip archive of all of them, made in the browser.

const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
// As the exports of leastnoise: text that a spreadsheet would take for a formula gets an apostrophe.
const harmless = (value) => (/^'*[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value);
const field = (value) => quoted(harmless(value));

function csv(table) {
  const [marks, mark] = data.warning ? [["insecure"], ["True"]] : [[], []];
  const numbers = [...(biased(table) ? ["count"] : ["count", "std_error", "low", "high"]), ...marks];
  const rows = [[...namesOf(table).map(field), ...numbers].join(",")];
  const labels = table.attributes.map((attribute) => attribute.labels.map(field));
  table.counts.forEach((count, k) => {
    const names = codesOf(table, k).map((code, axis) => labels[axis][code]);
    const error = errorAt(table, k);
    const ends = [count - spreadOf(count, error), count + spreadOf(count, error)].map((x) => Number(x.toPrecision(12)));
    rows.push([...names, Number.isNaN(count) ? "" : count, ...(biased(table) ? [] : [error, ...ends]), ...mark].join(","));
  });
  return `${rows.join("\n")}\n`;
}

function save(name, content, type = "text/csv") {
  const link = html("a", { href: URL.createObjectURL(new Blob([content].flat(), { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// --- zip archives, stored without compression (PKWARE's APPNOTE 6.3, sections 4.3.7, 4.3.12 and 4.3.16) ----------------

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1;
  return n >>> 0;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

// Little-endian fields, as [bytes, value].
function packed(fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((n, [bytes]) => n + bytes, 0)));
  let at = 0;
  for (const [bytes, value] of fields) {
    if (bytes === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += bytes;
  }
  return new Uint8Array(view.buffer);
}

function zip(files) {
  const [parts, directory] = [[], []];
  let offset = 0;
  for (const { name, text } of files) {
    const [label, bytes] = [name, text].map((words) => new TextEncoder().encode(words));
    // version 2.0, names in UTF-8, stored, midnight on 1 January 1980
    const about = [[2, 20], [2, 0x0800], [2, 0], [2, 0], [2, 0x21], [4, crc32(bytes)], [4, bytes.length], [4, bytes.length]]; // prettier-ignore
    const local = packed([[4, 0x04034b50], ...about, [2, label.length], [2, 0]]);
    directory.push(packed([[4, 0x02014b50], [2, 20], ...about, [2, label.length], [2, 0], [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]), label); // prettier-ignore
    parts.push(local, label, bytes);
    offset += local.length + label.length + bytes.length;
  }
  const size = directory.reduce((n, part) => n + part.length, 0);
  const count = files.length;
  const end = packed([[4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, size], [4, offset], [2, 0]]);
  return [...parts, ...directory, end];
}

function readMe() {
  const words = [document.querySelector("h1").textContent, ...[...document.querySelectorAll("#about p, #privacy p")].map((p) => p.textContent)];
  const facts = [...document.querySelectorAll(".facts div")].map((line) => [...line.children].map((e) => e.textContent).join(": "));
  return `${[data.warning, ...words, ...facts].filter(Boolean).join("\n\n")}\n`;
}

function saveAll() {
  const tables = catalogue.map((table) => ({ name: table.file, text: csv(opened(table)) }));
  save("tables.zip", zip([{ name: "README.txt", text: readMe() }, ...tables]), "application/zip");
}
