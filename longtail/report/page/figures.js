// A figure on the page: words, its own pickers, chart or cards, table, query.
// `pickedRows`: the rows for the selection that holds for all figures. `selected` also applies the figure's own pickers.
function pickedRows(figure) {
  const rows = rowsOf(figure);
  const names = figure.data.names;
  const of = (role) => names.filter((name) => payload.roles[name] === role);
  let chosenRows = rows.filter((row) => of("dataset").every((name) => row[name] === null || row[name] === picked.dataset));
  for (const name of of("prompt")) {
    const prompts = present(chosenRows, name);
    const prompt = prompts.includes(picked.prompt) ? picked.prompt : prompts[0];
    chosenRows = chosenRows.filter((row) => row[name] === prompt);
    figure.prompt = prompt !== picked.prompt && prompts.length ? prompt : null;
  }
  for (const role of ["model", "method"]) {
    const filtered = of(role).filter((name) => name !== "parametric_method");
    chosenRows = chosenRows.filter((row) => filtered.every((name) => row[name] === null || !picked[role].hidden.has(row[name])));
  }
  return chosenRows;
}

function selected(figure) {
  let chosenRows = pickedRows(figure);
  for (const name of figure.choose) {
    const values = present(chosenRows, name);
    if (!values.includes(figure.chosen[name])) figure.chosen[name] = values[0];
    figure.options[name] = values;
    chosenRows = chosenRows.filter((row) => row[name] === figure.chosen[name]);
  }
  return chosenRows;
}

const NAMES = {
  model: "Model", parametric_method: "Memory", retrieval_method: "Retrieval", variant: "Thresholds", comparison: "Comparing", within: "Within",
  relation: "Relation", split: "Facts", entries: "Show", method: "Method", prompt: "Prompt", signal: "Signal", predictor: "Predictor",
  setting: "Relations", measure: "Measure", threshold_scope: "Thresholds", grounding_prompt: "Grounding prompt", text_from: "Texts",
  compared_with: "Compared with", length: "Length",
};

function chooser(figure, name) {
  const select = make("select", { id: `${figure.key}-${name}`, on: { change: () => {
    figure.chosen[name] = select.value;
    remember(`${figure.key}.${name}`, select.value);
    refresh(figure);
  } } });
  figure.selects[name] = select;
  return make("label", { class: "choose", for: select.id }, NAMES[name] || name, select);
}

function fillChoosers(figure) {
  for (const [name, select] of Object.entries(figure.selects)) {
    const options = figure.options[name] || [];
    select.replaceChildren(...options.map((value) => make("option", { value, selected: value === figure.chosen[name] }, value)));
    select.value = figure.chosen[name];
    select.parentElement.hidden = options.length < 2;
    select.parentElement.dataset.chosen = figure.chosen[name] ?? "";
  }
}

// Our own captions mark names with backquotes. A number and its % stay on one line.
function worded(text) {
  return text.replace(/(\d) %/g, "$1\u00a0%").split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));
}

function figureCard(figure) {
  const chosen = Object.fromEntries(figure.choose.map((name) => [name, asked.get(`${figure.key}.${name}`)]));
  Object.assign(figure, { chosen, options: {}, selects: {}, stale: true });
  const link = make("a", { href: `#${figure.key}` }, figure.title);
  const head = make("div", { class: "head" },
    make("h3", { id: `${figure.key}-title` }, link), make("span", { class: "source" }, figure.source));
  const card = make("figure", { class: `card of-${figure.kind}`, id: figure.key, "aria-labelledby": `${figure.key}-title` }, head);
  figure.card = card;
  const behind = !figure.leads_to_answers ? "" : figure.kind === "chart" ? " A click on a point or cell opens its answers, as the links in the table do." : " Each row has a link to its answers.";
  card.append(make("figcaption", {}, make("p", { class: "shows" }, ...worded(figure.shows + behind))));
  if (figure.choose.length) card.append(make("div", { class: "choosers" }, ...figure.choose.map((name) => chooser(figure, name))));
  figure.note = card.appendChild(make("p", { class: "note", hidden: true }));
  figure.place = card.appendChild(make("div", { class: figure.kind === "chart" ? "chart" : "content" }));
  if (figure.kind === "chart") {
    figure.place.setAttribute("role", "img");
    figure.place.setAttribute("aria-label", `${figure.title}. ${figure.shows.replaceAll("`", "")} The numbers are in the table below.`);
  }
  card.append(details(figure));
  return card;
}

function details(figure) {
  const code = make("code", {}, figure.sql);
  const copy = make("button", { type: "button", class: "plain", on: { click: () => copyText(figure.sql, copy) } }, "Copy SQL");
  const save = make("button", { type: "button", class: "plain", on: { click: () => saveCsv(figure, selected(figure)) } }, "Save as CSV");
  figure.tablePlace = make("div");
  figure.tableCount = make("span");
  figure.tableBox = make("details", { on: { toggle: () => fillTable(figure) } },
    make("summary", {}, "Table", figure.tableCount), figure.tablePlace);
  const query = make("details", {}, make("summary", {}, "SQL"),
    make("pre", { tabindex: "0", role: "region", "aria-label": `Query of ${figure.title}` }, code), copy);
  const box = make("div", { class: "behind" });
  if (figure.kind !== "table") box.append(figure.tableBox);
  box.append(query, save);
  for (const kind of figure.kind === "chart" ? ["PNG", "SVG"] : []) {
    box.append(make("button", { type: "button", class: "plain", on: { click: () => saveChart(figure, kind) } }, `Save as ${kind}`));
  }
  return box;
}

function fillTable(figure) {
  if (!figure.tableBox.open || figure.tableFor === figure.selection) return;
  figure.tableFor = figure.selection;
  figure.tablePlace.replaceChildren(dataTable(figure, figure.selection));
}

function prepare(figure) {
  figure.selection = selected(figure);
  fillChoosers(figure);
  figure.tableCount.textContent = ` (${plain.format(figure.selection.length)} rows)`;
  figure.note.hidden = !figure.prompt;
  figure.note.replaceChildren("This figure has only answers to prompt ", isolated(figure.prompt || ""), ".");
  fillTable(figure);
}

async function refresh(figure) {
  figure.stale = false;
  try {
    await drawFigure(figure);
  } catch (error) {
    console.error(error);
    figure.place.replaceChildren(make("p", { class: "empty" }, "This figure could not be drawn; the query below gives its numbers."));
  }
}

async function drawFigure(figure) {
  prepare(figure);
  const rows = figure.selection;
  if (!rows.length) return;  // `fold` hides its card
  if (figure.kind === "table") { figure.place.replaceChildren(dataTable(figure, rows)); return; }
  if (figure.kind === "examples") { figure.place.replaceChildren(examples(figure, rows)); return; }
  if (figure.kind === "quotes") { figure.place.replaceChildren(quotes(rows)); return; }
  const last = figure.drawing || Promise.resolve();
  figure.drawing = last.catch(() => null).then(() => (figure.selection === rows ? draw(figure, rows) : null));
  await figure.drawing;
}
