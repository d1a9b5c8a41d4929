// The rows in the page, and numbers as text. All text from the data stays text: it reaches the page only by textContent
// and setAttribute.
const payload = JSON.parse(document.getElementById("longtail-data").textContent);
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

function clean(value) {
  return typeof value === "string" ? value.replace(CONTROLS, "\ufffd") : value;
}

function rowsOf(figure) {
  if (figure.rows) return figure.rows;
  const { names, columns } = figure.data;
  const read = names.map((name) => {
    const column = columns[name];
    if (Array.isArray(column)) return column;
    const words = column.words.map(clean);
    return column.codes.map((code) => (code < 0 ? null : words[code]));
  });
  const count = read.length ? read[0].length : 0;
  figure.rows = Array.from({ length: count }, (_, at) => {
    const row = {};
    names.forEach((name, place) => { row[name] = read[place][at]; });
    return row;
  });
  return figure.rows;
}

function present(rows, name) {
  const seen = new Set(rows.map((row) => row[name]).filter((value) => value !== null && value !== undefined));
  const order = payload.dimensions.order[payload.roles[name] || name] || [];
  const known = order.map(clean).filter((value) => seen.has(value));
  return [...known, ...[...seen].filter((value) => !known.includes(value))];
}

const plain = new Intl.NumberFormat("en");
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const dollars = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const points = (value) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(1)}`;

function written(value, kind) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(clean).join(" · ");
  if (typeof value !== "number") return clean(String(value));
  if (kind === "count") return plain.format(Math.round(value));
  if (kind === "share") return value.toFixed(3);
  if (kind === "signed") return (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
  if (kind === "points") return points(value);
  if (kind === "usd") return dollars.format(value);
  if (kind === "p") return value < 0.001 ? "< 0.001" : value.toFixed(3);
  return significant.format(value);
}

function interval(row, column) {
  const [low, high] = column.interval.map((name) => row[name]);
  if (low === null || low === undefined || high === null || high === undefined) return "";
  return `${written(low, column.kind)} to ${written(high, column.kind)}`;
}

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "on") for (const [event, then] of Object.entries(value)) node.addEventListener(event, then);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Text whose direction does not change the text around it.
function isolated(text) {
  return make("bdi", {}, clean(String(text)));
}
