// One answer: what the model read and wrote, its scores, and all answers to the same question side by side.
const verdict = (isRight) => make("span", { class: isRight ? "verdict right" : "verdict wrong" }, isRight ? "✓ right" : "✗ wrong");

// Parts are gzipped JSON, in this page or in the folder answers beside it.
const loaded = new Map();
function part(name) {
  if (!loaded.has(name)) loaded.set(name, load(name).catch((error) => { loaded.delete(name); throw error; }));
  return loaded.get(name);
}

async function load(name) {
  const packed = payload.parts[name];
  const bytes = packed ? Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0)) : await (await fetch(`answers/${name}.bin`)).arrayBuffer();
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function shownText(shard, places, length, column, key) {
  if (places === null) return make("p", { class: "empty" }, "The published tables do not have it.");
  const table = column === "raw_text" ? "fct_answers" : "fct_prompts";
  const cut = `Cut after ${plain.format(payload.longest)} of ${plain.format(length)} characters. All of it: select ${column} from ${table} where question_id = '${key[1].replaceAll("'", "''")}'`;
  return make("div", {}, make("pre", { dir: "auto", tabindex: "0" }, joined(shard, places) || "(empty)"), length > payload.longest ? make("p", { class: "facts" }, cut) : null);
}

const joined = (shard, places) => clean(places.map((place) => shard.texts[place]).join("\n\n"));

function passageNode(shard, [id, title, origin, places], golds) {
  const text = places ? mark(joined(shard, places), golds) : ["This passage is not published."];
  return make("blockquote", { dir: "auto" }, title ? make("strong", {}, clean(title)) : null, title ? " — " : "", ...text,
    make("p", { class: "facts" }, isolated([clean(id), clean(origin)].filter(Boolean).join(" · "))));
}

// Models are rows, methods are columns; the opened answer is marked.
function sideBySide(at) {
  const same = answersTo(at);
  const methods = listed("method").filter((name) => same.some((one) => valueOf("method", one) === name));
  const models = listed("model").filter((name) => same.some((one) => valueOf("model", one) === name));
  const cellOf = (model, method) => {
    const one = same.find((other) => valueOf("model", other) === model && valueOf("method", other) === method);
    if (one === undefined) return make("td", {}, "–");
    return make("td", { "aria-current": one === at ? "true" : null }, verdict(index.answers.is_correct[one]), make("br"), answerLink(one, valueOf("prediction", one)));
  };
  const head = make("tr", {}, make("th", { scope: "col" }, "Model"), ...methods.map((name) => make("th", { scope: "col", dir: "auto" }, name)));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All answers to this question" }, make("table", { class: "beside" },
    make("thead", {}, head), make("tbody", {}, ...models.map((model) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, model),
      ...methods.map((method) => cellOf(model, method)))))));
}

async function answerNode(at) {
  let first = 0;
  const { name: from } = payload.shards.find(({ n }) => (at < first + n) || ((first += n), false));
  const shard = await part(from), key = keyOf(at), golds = valueOf("gold_answers", at), of = (name) => shard.answers[name][at - first];
  const titled = (title, ...content) => [make("h3", {}, title), ...content];
  const facts = [valueOf("relation", at), `popularity ${written(valueOf("popularity", at))}`, `consistency ${written(valueOf("consistency", at), "share")}`, ...key];
  const passages = of("passages").map((number) => passageNode(shard, shard.passages[number], golds));
  const [prompt, ...apart] = of("prompts");
  const exact = { true: "Character by character what the model read: its hash says so.", false: "Built from the published tables; its hash differs from that of what the model read." };
  const scores = payload.scores.flatMap(({ name, label, kind }) => (of(name) === null ? [] : [make("dt", {}, label), make("dd", {}, isolated(written(of(name), kind)))]));
  return make("div", {}, make("h2", { id: "opened", tabindex: "-1", dir: "auto" }, valueOf("question", at)),
    make("p", { class: "facts" }, "gold: ", ...golds.flatMap((gold, n) => [n ? ", " : "", isolated(gold)])),
    make("p", { class: "facts" }, ...facts.filter(Boolean).flatMap((fact, n) => [n ? " · " : "", isolated(fact)])),
    make("p", { class: "given", dir: "auto" }, verdict(index.answers.is_correct[at]), " ", isolated(valueOf("prediction", at) || "(empty)")),
    ...titled("All answers to this question", sideBySide(at)),
    ...titled("Raw text", shownText(shard, of("raw_text"), of("raw_text_length"), "raw_text", key)),
    ...(passages.length ? titled(passages.length > 1 ? "Passages" : "Passage", ...passages) : []),
    ...titled("Prompt", prompt && exact[of("is_exact")] ? make("p", { class: "facts" }, exact[of("is_exact")]) : null, shownText(shard, prompt, of("prompt_length"), "prompt_text", key),
      ...apart.map((text) => shownText(shard, text, 0, "prompt_text", key))),
    ...titled("Scores", make("dl", { class: "provenance" }, ...scores)));
}
