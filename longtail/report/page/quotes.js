// Quotes: texts of models, with the places marked that stand in the corpus. Places count code points, as Python does.
function quoteCard(row) {
  const points = Array.from(row.text || "");
  const parts = [];
  let at = 0;
  (row.span_starts || []).forEach((start, place) => {
    const end = Math.min(row.span_ends[place], points.length);
    if (start >= end) return;
    // The next span may begin inside this one: two runs of characters can overlap though no run of both is in the corpus.
    parts.push(points.slice(at, Math.max(at, start)).join(""), make("mark", {}, clean(points.slice(Math.max(at, start), end).join(""))));
    at = Math.max(at, end);
  });
  parts.push(points.slice(at).join(""));
  const facts = [`QUIP ${written(row.quip, "share")}`, `${written(row.n_grams, "count")} runs of 25 characters`,
    `${written(row.n_quotes, "count")} quotations`];
  return make("article", { class: "example" },
    make("h4", { dir: "auto" }, clean(row.question || "")),
    make("blockquote", { dir: "auto" }, ...parts.map((part) => (typeof part === "string" ? clean(part) : part)), row.is_cut ? " …" : ""),
    make("p", { class: "facts" }, facts.join(" · ")));
}

function quotes(rows) {
  if (!rows.length) return make("p", { class: "empty" }, "No text for this selection.");
  return make("div", { class: "examples" }, ...rows.map(quoteCard));
}
