// The story in short: what each model should do, in a sentence computed from the rows of figures, and four cards.
const figures = payload.figures;
const findings = make("div", { class: "findings" });
const tileList = make("dl", { class: "tiles" });
const rowsOfKey = (key) => figures.filter((figure) => figure.key === key && !figure.missing).flatMap(pickedRows);

function tile(name, value, text) {
  return make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, make("strong", {}, value), make("span", {}, text)));
}

const percent = (value) => `${(100 * value).toFixed(1)} %`;
const points = (value, digits = 2) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(digits)}`;

function best(rows, by) {
  return rows.filter((row) => row[by] !== null).reduce((top, row) => (top === null || row[by] > top[by] ? row : top), null);
}

function accuracyTile(name, row) {
  return tile(name, percent(row.accuracy),
    `${row.model}, ${row.method}; 95 % interval ${percent(row.ci_low)} to ${percent(row.ci_high)}, n = ${plain.format(row.n)}`);
}

// A gain counts only if its interval is above zero. A gain without an interval does not count.
function gainTiles(gains) {
  const known = gains.filter((row) => row.gain !== null);
  if (!known.length) return [];
  const tried = `${plain.format(known.length)} ${known.length === 1 ? "pair" : "pairs and searches"}`;
  const top = best(known.filter((row) => row.gain_ci_low !== null && row.gain_ci_low > 0), "gain");
  if (top === null) return [tile("Adaptive retrieval", "no gain", `none of ${tried} has a gain with a 95 % interval above zero`)];
  const rest = top.share_retrieved < 1 ? "; memory answers the rest" : "";
  return [
    tile("Largest adaptive gain", `${points(top.gain)} points`,
      `${top.model}, ${top.parametric_method} or ${top.retrieval_method} (${top.variant}), over the better of always and never; ` +
      `95 % interval ${points(top.gain_ci_low)} to ${points(top.gain_ci_high)}; largest of ${tried}`),
    tile("Retrieval is used for", percent(top.share_retrieved), `of the questions with popularity${rest}`),
  ];
}

function tiles() {
  const rows = rowsOfKey("headline").filter((row) => !payload.unranked.includes(row.method));
  const memory = best(rows.filter((row) => payload.parametric.includes(row.method)), "accuracy");
  const reading = best(rows.filter((row) => !payload.parametric.includes(row.method)), "accuracy");
  return [
    memory && accuracyTile("Best from memory", memory),
    reading && accuracyTile("Best with a retrieved passage", reading),
    ...gainTiles(rowsOfKey("adaptive_gain").filter((row) => !payload.unranked.includes(row.retrieval_method))),
  ].filter(Boolean);
}

// What to do with a model: retrieve below a threshold if that surely gains, else always or never if that is sure.
function sentence(model) {
  const mine = (key) => rowsOfKey(key).filter((row) => (row.model ?? row.within) === model);
  const isMemory = (method) => payload.parametric.includes(method), isRanked = (method) => !payload.unranked.includes(method);
  const told = (weight, say, [gain, ...bounds], means, n) => ({ model, weight, means: `${means}, with the 95 % interval; n = ${plain.format(n)}.`,
    say: (of) => `: ${say(of)}: ${points(gain, 1)} points [${bounds.map((one) => (100 * one).toFixed(1).replace("-", "−")).join(", ")}]` });
  const gain = best(mine("adaptive_gain").filter((row) => row.variant === "one threshold, exact" && isRanked(row.retrieval_method) && row.gain_ci_low > 0), "gain");
  const limit = gain && mine("adaptive_thresholds").find((row) => row.relation === "all" && row.threshold_popularity !== null
    && ["parametric_method", "retrieval_method"].every((name) => row[name] === gain[name]));
  if (limit) {
    const below = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 }).format(limit.threshold_popularity);
    return told(1 + gain.gain, (of) => `below about ${below}${of}, look it up`, [gain.gain, gain.gain_ci_low, gain.gain_ci_high],
      `Held-out accuracy over the better of always and never reading a passage (${gain.retrieval_method})`, gain.n_questions);
  }
  const pairs = mine("paired_comparisons").flatMap((row) => {
    const [sign, memory, method] = isMemory(row.method_a) ? [-1, row.method_a, row.method_b] : [1, row.method_b, row.method_a];
    if (row.comparison !== "methods" || row.ci_low === null || !isMemory(memory) || isMemory(method) || !isRanked(method)) return [];
    return [{ method, n: row.n, gain: sign * row.difference, bounds: [sign * row.ci_low, sign * row.ci_high].sort((a, b) => a - b) }];
  });
  const top = best(pairs, "gain");
  if (top === null || (top.bounds[0] <= 0 && top.bounds[1] >= 0)) return null;
  return told(Math.abs(top.gain), () => (top.gain > 0 ? "look everything up" : "trust memory, a passage misleads"), [top.gain, ...top.bounds],
    `Accuracy with a passage (${top.method}) minus accuracy from memory`, top.n);
}

function sentences() {
  if (payload.findings) return payload.findings.map((text, at) => make("p", { class: at ? "means" : "finding" }, clean(text)));
  const found = order.model.map(clean).filter((model) => !picked.model.hidden.has(model)).map(sentence).filter(Boolean);
  const real = found.filter((one) => !payload.invented.includes(one.model));
  const lead = best(real.length ? real : found, "weight");
  if (lead === null) return [];
  const line = (one, of) => [make("strong", {}, isolated(one.model)), one.say(of)];
  const rest = found.filter((one) => one !== lead).flatMap((one, at) => [at ? "; " : " Other models: ", ...line(one, "")]);
  return [make("p", { class: "finding" }, ...line(lead, ` ${payload.dimensions.labels.popularity}`)), make("p", { class: "means" }, lead.means, ...rest)];
}
