// Examples: questions with both answers and the passage.
function mark(passage, golds) {
  const known = (golds || []).map(clean).filter((gold) => gold.length > 1).sort((a, b) => b.length - a.length);
  const parts = [];
  let rest = passage;
  while (rest) {
    const places = known.map((gold) => [rest.toLowerCase().indexOf(gold.toLowerCase()), gold.length]).filter(([at]) => at >= 0);
    if (!places.length) break;
    const [at, length] = places.reduce((best, one) => (one[0] < best[0] ? one : best));
    parts.push(rest.slice(0, at), make("mark", {}, rest.slice(at, at + length)));
    rest = rest.slice(at + length);
  }
  return [...parts, rest];
}

function exampleCard(row, misled) {
  const answer = (name, text, right) => make("div", { class: right ? "answer right" : "answer wrong" },
    make("span", { class: "role" }, name), make("span", { class: "verdict" }, right ? "✓ right" : "✗ wrong"),
    make("p", { dir: "auto" }, clean(text) || "(empty)"));
  const whose = { subject: "the subject's own article", namesake: "an article of a namesake", other: "another article" };
  const facts = [row.relation, `popularity ${written(row.subject_popularity, "number")}`, whose[row.passage_of] || row.passage_of,
    row.passage_source && clean(row.passage_source), row.passage_licence && clean(row.passage_licence)];
  return make("article", { class: "example" },
    make("h4", { dir: "auto" }, clean(row.question)),
    make("p", { class: "facts" }, "gold: ", ...(row.gold_answers || []).flatMap((gold, at) => [at ? ", " : "", isolated(gold)])),
    make("div", { class: "answers" }, answer("from memory", row.parametric_prediction, misled),
      answer("with the passage", row.retrieval_prediction, !misled)),
    row.passage_title || row.passage ? make("blockquote", { dir: "auto" }, row.passage_title ? make("strong", {}, clean(row.passage_title)) : null,
      row.passage_title ? " — " : "", ...mark(clean(row.passage || ""), row.gold_answers), row.is_cut ? " …" : "") : null,
    make("p", { class: "facts" }, ...facts.filter(Boolean).flatMap((fact, at) => [at ? " · " : "", isolated(fact)]), " · ",
      make("a", { href: addressOf([row.dataset, row.question_id, row.prompt, row.model, row.retrieval_method]) }, "the whole answer")));
}

function examples(figure, rows) {
  if (!rows.length) return make("p", { class: "empty" }, "No example for this selection.");
  return make("div", { class: "examples" }, ...rows.map((row) => exampleCard(row, figure.key.startsWith("misled"))));
}
