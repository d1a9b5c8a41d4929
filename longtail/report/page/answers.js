// The list of answers: filters, pages of rows, keys. The address keeps the filters and the opened answer.
const LINES = 50;
const CHOICES = { dataset: "Dataset", prompt: "Prompt", model: "Model", method: "Method", relation: "Relation", outcome: "Outcome", with: "Compared with" };
const RANGES = { popularity: "Popularity", confidence: "Confidence", consistency: "Consistency" };
// Whether the answer is right, and whether that of the method is which it is compared with.
const OUTCOMES = { right: [1], wrong: [0], rescued: [1, 0], misled: [0, 1], "both right": [1, 1], "neither right": [0, 0] };
const MEMORY = clean(payload.parametric[0] || "");
const body = make("tbody"), status = make("p", { role: "status", class: "count" });
const opened = make("article", { class: "opened card", "aria-label": "The opened answer", hidden: true });
const search = make("input", { type: "search", id: "search", value: asked.get("q"), on: { input: () => changed("q", search.value) } });
const [back, on] = [["← Earlier", -1], ["Later →", 1]].map(([text, by]) => make("button", { type: "button", class: "plain", on: { click: () => turn(by) } }, text));
let index = null, matches = [], page = 0, current = null, low = null, several = [];

const columnOf = (name) => index.answers[name] || index.questions[name];
function valueOf(name, at) {
  const column = columnOf(name), place = index.answers[name] ? at : index.answers.place[at];
  return column.words ? column.words[column.codes[place]] ?? null : column[place];
}
const keyOf = (at) => ["dataset", "question_id", "prompt", "model", "method"].map((name) => valueOf(name, at));

// The values of a filter, in the order of the study.
function listed(name) {
  if (name === "outcome") return Object.keys(OUTCOMES);
  const role = name === "with" ? "method" : name, { words } = columnOf(role), known = order[role].map(clean);
  return [...known.filter((value) => words.includes(value)), ...words.filter((value) => !known.includes(value))];
}

// The answers to the question of an answer, under the same prompt. The answers to a question are neighbours.
function answersTo(at) {
  const { place, prompt } = index.answers, found = [];
  for (let one = place.indexOf(place[at]); place[one] === place[at]; one += 1) if (prompt.codes[one] === prompt.codes[at]) found.push(one);
  return found;
}

// For each answer, whether that of method `name` is right; undefined for this method's own, or without one.
function comparedWith(name) {
  const { place, prompt, model, method, is_correct: isRight } = index.answers, code = method.words.indexOf(name), right = new Map();
  const keyed = (at) => (place[at] * prompt.words.length + prompt.codes[at]) * model.words.length + model.codes[at];
  for (let at = 0; at < place.length; at += 1) if (method.codes[at] === code) right.set(keyed(at), isRight[at]);
  return (at) => (method.codes[at] === code ? undefined : right.get(keyed(at)));
}

function conditions() {
  const { place, is_correct: isRight, prediction } = index.answers, found = [];
  const add = (name, holds) => found.push(index.answers[name] ? holds : (at) => holds(place[at]));
  for (const name of ["dataset", "prompt", "model", "method", "relation"].filter((one) => asked.get(one))) {
    const { words, codes } = columnOf(name), code = words.indexOf(asked.get(name));
    add(name, (at) => code >= 0 && codes[at] === code);
  }
  const [own, other] = OUTCOMES[asked.get("outcome")] || [];
  if (own !== undefined) found.push((at) => isRight[at] === own);
  if (other !== undefined) {
    const compared = comparedWith(asked.get("with") || MEMORY);
    found.push((at) => compared(at) === other);
  }
  for (const name of Object.keys(RANGES)) {
    const column = columnOf(name), [from, below] = ["from", "below"].map((end) => parseFloat(asked.get(`${name}_${end}`) ?? ""));
    if (Number.isNaN(from) && Number.isNaN(below)) continue;
    const isWhole = Number.isNaN(below) || below >= column.reduce((most, value) => Math.max(most, value ?? most), -Infinity);
    add(name, (at) => column[at] !== null && !(column[at] < from) && (isWhole || column[at] < below));
  }
  const text = (asked.get("q") || "").toLowerCase(), lower = (texts) => texts.map((one) => one.toLowerCase());
  if (text) {
    low ??= [index.questions.question.map((one, at) => [one, ...index.questions.gold_answers[at]].join("\n")), prediction.words].map(lower);
    const [asks, answers] = low.map((texts) => texts.map((one) => one.includes(text)));
    found.push((at) => asks[place[at]] || answers[prediction.codes[at]]);
  }
  return found;
}

function filter() {
  const all = conditions();
  matches = [];
  for (let at = 0; at < payload.n_answers; at += 1) if (all.every((one) => one(at))) matches.push(at);
  page = Math.max(0, Math.floor(matches.indexOf(current) / LINES));
  list();
}

function answerLink(at, text) {
  const link = make("a", { href: addressOf(keyOf(at), asked), dir: "auto" }, text || "(empty)");
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(at);
  });
  return link;
}

function lineOf(at) {
  return make("tr", { "data-at": at, "aria-current": at === current && "true" },
    make("td", {}, verdict(index.answers.is_correct[at])), make("td", {}, answerLink(at, valueOf("question", at))),
    ...["prediction", "model", "method", ...several].map((name) => make("td", { dir: "auto" }, valueOf(name, at))),
    ...["popularity", "confidence"].map((name) => make("td", { class: "number" }, written(valueOf(name, at)))));
}

function list() {
  const first = page * LINES, last = Math.min(first + LINES, matches.length);
  body.replaceChildren(...matches.slice(first, last).map(lineOf));
  const part = matches.length > LINES ? `, ${plain.format(first + 1)} to ${plain.format(last)} shown` : "";
  status.textContent = `${plain.format(matches.length)} of ${plain.format(payload.n_answers)} answers${part}`;
  back.disabled = page === 0;
  on.disabled = last === matches.length;
  document.documentElement.dataset.drawn = "all";
}

function turn(by) {
  page += by;
  list();
}

async function open(at) {
  current = at;
  remember("open", JSON.stringify(keyOf(at)));
  list();
  const node = await answerNode(at).catch(unread);
  if (current !== at) return;
  opened.replaceChildren(make("button", { type: "button", class: "plain", on: { click: close } }, "Close"), node);
  opened.hidden = false;
  opened.scrollTop = 0;
  node.querySelector("[tabindex]").focus();
}

function close() {
  const place = [...body.children].findIndex((line) => line.matches("[aria-current]"));
  opened.hidden = true;
  current = null;
  remember("open");
  list();
  body.querySelectorAll("a")[Math.max(0, place)]?.focus();
}

// Up and down go through the rows, and turn the page.
function move(by) {
  const next = [...body.children].indexOf(document.activeElement.closest("tr")) + by;
  const turns = (next < 0 && page > 0) || (next >= body.children.length && !on.disabled);
  if (turns) turn(by);
  const links = body.querySelectorAll("a");
  links[turns ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(0, next), links.length - 1)]?.focus();
}

addEventListener("keydown", (event) => {
  const acts = { "/": () => search.focus(), Escape: () => opened.hidden || close(), ArrowDown: () => move(1), ArrowUp: () => move(-1) };
  const isTaken = event.target === search ? event.key === "/" || event.key === "ArrowUp" : event.target.matches("input, select") || (opened.contains(event.target) && event.key.startsWith("Arrow"));
  if (!index || isTaken || !acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  acts[event.key]();
});

function changed(name, value) {
  remember(name, ...(value === "" ? [] : [value]));
  filter();
}

function choice(name) {
  const values = listed(name), first = name === "with" ? [] : [make("option", { value: "" }, "all")];
  const select = make("select", { id: `pick-${name}`, on: { change: () => changed(name, select.value) } }, ...first, ...values.map((value) => make("option", { value }, value)));
  select.value = asked.get(name) || (name === "with" ? MEMORY : "");
  return make("label", { class: "pick", for: select.id, hidden: values.length < 2 }, CHOICES[name], select);
}

function range(name) {
  const box = (end) => make("input", { type: "number", step: "any", value: asked.get(`${name}_${end}`), "aria-label": `${RANGES[name]} ${end}`, placeholder: end,
    on: { input: (event) => changed(`${name}_${end}`, event.target.value) } });
  return make("div", { class: "pick", hidden: columnOf(name).every((value) => value === null) }, RANGES[name], box("from"), box("below"));
}

function unread(error) {
  console.warn(error);
  return make("div", {}, make("p", { class: "note", role: "alert", tabindex: "-1" }, location.protocol === "file:"
    ? "This study has more answers than one file holds, and a browser reads the files beside it only from a server: start `make ui` and open /published/answers.html there."
    : "The files of these answers could not be read. Load the page again: the study may have been published anew."));
}

function shell(...content) {
  document.title = `Answers · ${clean(payload.study.name)}`;
  const mast = make("header", { class: "mast" }, make("p", { class: "brand" }, make("a", { href: "report.html" }, "Longtail report")),
    make("h1", {}, "Answers of ", isolated(payload.study.name)));
  const banner = payload.banner && make("aside", { class: "banner", role: "note", "aria-label": "Limits of this study" }, make("strong", {}, payload.banner.title), " ", payload.banner.text);
  document.getElementById("page").replaceChildren(mast, make("main", { id: "main", tabindex: "-1", class: "explorer" }, banner, ...content));
  document.documentElement.dataset.drawn = "all";
}

async function begin() {
  if (!payload.n_answers) { shell(make("p", { class: "empty" }, "This study has no answers: it asks no model, or nothing is answered yet.")); return; }
  try { index = await part(payload.index); } catch (error) { shell(unread(error)); return; }
  several = ["dataset", "prompt"].filter((name) => columnOf(name).words.length > 1);
  const filters = make("div", {}, ...Object.keys(CHOICES).map(choice), ...Object.keys(RANGES).map(range));
  const bar = make("div", { class: "bar", role: "search" }, make("label", { class: "pick", for: search.id }, "Search", search), make("a", { href: "answers.html" }, "Clear all"),
    make("details", { class: "filters", open: innerWidth > 600 }, make("summary", {}, "Filters"), filters));
  const heads = ["", "Question", "Answer", "Model", "Method", ...several.map((name) => CHOICES[name]), "Popularity", "Confidence"];
  const table = make("table", {}, make("caption", { class: "unseen" }, "Answers"), make("thead", {}, make("tr", {}, ...heads.map((name, at) =>
    make("th", { scope: "col", class: at > heads.length - 3 && "number" }, name || make("span", { class: "unseen" }, "Verdict"))))), body);
  const found = make("section", { class: "found", "aria-label": "Answers" }, make("div", { class: "steps" }, status, back, on),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Answers that match" }, table));
  shell(bar, make("p", { class: "facts" }, "Keys: / searches, ↑ and ↓ go through the list, Enter opens, Escape closes. A range ends below its second number; the greatest value belongs to a range that ends there."),
    make("div", { class: "both" }, found, opened));
  const at = asked.get("open") ? index.answers.place.findIndex((_, one) => JSON.stringify(keyOf(one)) === asked.get("open")) : -1;
  current = at < 0 ? null : at;
  filter();
  if (at >= 0) open(at);
}

begin();
