// The table behind a figure. It can be sorted by click or key and saved as CSV. A long table first shows a part.
const SHOWN_ROWS = 10, LONG = 12;

function columnsOf(figure, rows) {
  const used = figure.columns.filter((column) => figure.data.names.includes(column.name));
  const constant = new Set(["dataset", "questions_of", "prompt"].filter((name) => distinct(rows, name) === 1));
  const empty = (column) => rows.length > 0 && rows.every((row) => row[column.name] === null);
  return used.filter((column) => !constant.has(column.name) && !empty(column));
}

const isNumber = (column) => !["text", "flag", "points"].includes(column.kind);

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function dataTable(figure, rows) {
  const columns = columnsOf(figure, rows);
  const state = { by: null, down: false, all: rows.length <= LONG };
  const body = make("tbody");
  const heads = columns.map((column) => {
    const button = make("button", { type: "button", on: { click: () => sort(column) } }, column.label);
    return make("th", { scope: "col", "aria-sort": "none", class: isNumber(column) ? "number" : "text" }, button);
  });
  const more = make("button", { type: "button", class: "plain", hidden: rows.length <= LONG, on: { click: () => { state.all = !state.all; fill(); } } });

  function sort(column) {
    state.down = state.by === column ? !state.down : column.kind !== "text";
    state.by = column;
    heads.forEach((head, at) => head.setAttribute(
      "aria-sort", columns[at] === column ? (state.down ? "descending" : "ascending") : "none"));
    fill();
  }

  function fill() {
    let ordered = rows;
    if (state.by) {
      const { name } = state.by;
      const missing = (row) => row[name] === null || row[name] === undefined;
      ordered = [...rows].sort((a, b) => (missing(a) || missing(b) ? compare(a[name], b[name])
        : (state.down ? -1 : 1) * compare(a[name], b[name])));
    }
    const shown = state.all ? ordered : ordered.slice(0, SHOWN_ROWS);
    const behind = (row) => (figure.leads_to_answers ? make("td", {}, make("a", { href: answersBehind(row) }, "answers")) : null);
    body.replaceChildren(...shown.map((row) => make("tr", {}, ...columns.map((column) => cell(row, column)), behind(row))));
    more.dataset.printed = state.all ? "" : `${SHOWN_ROWS} of ${plain.format(rows.length)} rows`;
    more.textContent = state.all ? `Show ${SHOWN_ROWS} rows` : `Show all ${plain.format(rows.length)} rows`;
  }

  fill();
  if (figure.leads_to_answers) heads.push(make("th", { scope: "col", class: "lead-out" }, make("span", { class: "unseen" }, "Answers")));
  const caption = make("caption", { class: "unseen" }, figure.title);
  const table = make("table", {}, caption, make("thead", {}, make("tr", {}, ...heads)), body);
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${figure.title}` }, table);
  return make("div", {}, scroll, more);
}

function cell(row, column) {
  const value = row[column.name];
  const named = { "data-label": column.label, class: value === null || value === undefined ? "unknown" : null };
  if (column.kind === "text" || column.kind === "flag") return make("td", { dir: "auto", ...named }, written(value, column.kind));
  const node = make("td", named, written(value, column.kind));
  node.classList.add(isNumber(column) ? "number" : "words");
  if (column.interval) {
    const bounds = interval(row, column);
    if (bounds) node.append(" ", make("span", { class: "interval" }, bounds));
  }
  return node;
}

function csv(figure, rows) {
  // A leading quote keeps spreadsheets from reading a label as a formula.
  const quote = (value) => {
    const text = value === null || value === undefined ? "" : Array.isArray(value) ? JSON.stringify(value) : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const { names } = figure.data;
  return [names.join(","), ...rows.map((row) => names.map((name) => quote(row[name])).join(","))].join("\r\n");
}

function saveCsv(figure, rows) {
  saveFile(`${figure.key}.csv`, new Blob([csv(figure, rows)], { type: "text/csv" }));
}

function saveFile(name, content) {
  const address = URL.createObjectURL(content);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

async function copyText(text, button) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy SQL"; }, 1500);
}
