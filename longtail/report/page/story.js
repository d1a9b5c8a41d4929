// The story in short: the verdict on all data sets, or what each model should do, computed from the rows of figures.
const figures = payload.figures;
const findings = make("div", { class: "findings" });
const rowsOfKey = (key) => figures.filter((figure) => figure.key === key && !figure.missing).flatMap(pickedRows);
const isMemory = (method) => payload.parametric.includes(method), isRanked = (method) => !payload.unranked.includes(method);
const hasSeveral = order.dataset.length > 1;

const scope = (row) => (row.popularity_policy === "popularity" ? "one threshold" : "a threshold for each relation");

function best(rows, by) {
  return rows.filter((row) => row[by] !== null).reduce((top, row) => (top === null || row[by] > top[by] ? row : top), null);
}

// The policy that a verdict speaks of, with the number of questions that it decides.
function policyOf(verdict) {
  return rowsOfKey("policies").find((row) => row.policy === verdict.popularity_policy
    && ["model", "parametric_method", "retrieval_method"].every((name) => row[name] === verdict[name]));
}

// Where a threshold is: one number, or the least and the greatest of those of relations.
function thresholdsOf(row) {
  const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
  const limits = rowsOfKey("adaptive_thresholds").filter((one) => one.threshold_popularity !== null
    && (one.relation === "all") === (row.popularity_policy === "popularity")
    && ["model", "parametric_method", "retrieval_method"].every((name) => one[name] === row[name])).map((one) => one.threshold_popularity);
  if (!limits.length) return null;
  const [least, most] = [Math.min(...limits), Math.max(...limits)].map((value) => digits.format(value));
  return { isOne: row.popularity_policy === "popularity", text: least === most ? `about ${least}` : `${least} to ${most}` };
}

// What to do with a model: retrieve below a threshold if that surely gains, else always or never if that is sure.
function sentence(model) {
  const mine = (key) => rowsOfKey(key).filter((row) => (row.model ?? row.within) === model);
  const tell = (weight, figure, say, [gain, ...bounds], means) => ({ model, weight, figure, means, say,
    gain: `${points(gain)} points [${bounds.map((bound) => points(bound).replace("+", "")).join(", ")}]` });
  const gain = best(mine("verdicts").filter((row) => row.verdict === "gains" && isRanked(row.retrieval_method)), "popularity_gain");
  const limit = gain && thresholdsOf(gain);
  if (limit) {
    const say = (of) => (limit.isOne ? `below ${limit.text}${of}, look it up`
      : of ? `look up what is below the threshold of its relation (${limit.text}${of})` : `below ${limit.text}, by relation`);
    return tell(1 + gain.popularity_gain, "adaptive_gain", say, [gain.popularity_gain, gain.popularity_gain_ci_low, gain.popularity_gain_ci_high],
      `Held-out accuracy with ${scope(gain)}, fitted by exact search, over the better of always and never reading a passage ` +
      `(${gain.retrieval_method}), with the 95 % interval; n = ${written(policyOf(gain)?.n, "count")}.`);
  }
  const pairs = mine("paired_comparisons").flatMap((row) => {
    const [sign, memory, method] = isMemory(row.method_a) ? [-1, row.method_a, row.method_b] : [1, row.method_b, row.method_a];
    if (row.comparison !== "methods" || row.ci_low === null || !isMemory(memory) || isMemory(method) || !isRanked(method)) return [];
    return [{ method, n: row.n, gain: sign * row.difference, bounds: [sign * row.ci_low, sign * row.ci_high].sort((a, b) => a - b) }];
  });
  const top = best(pairs, "gain");
  if (top === null || (top.bounds[0] <= 0 && top.bounds[1] >= 0)) return null;
  return tell(Math.abs(top.gain), "paired_comparisons", () => (top.gain > 0 ? "look everything up" : "trust memory, a passage misleads"), [top.gain, ...top.bounds],
    `Accuracy with a passage (${top.method}) minus accuracy from memory, with the 95 % interval; n = ${plain.format(top.n)}.`);
}

const linked = (key, text) => make("a", { href: `#${key}` }, text);

// How many of the rows have each verdict: 'gains for 1, gains nothing for 3 and loses for 2 of 6'.
function count(rows, column) {
  const known = rows.filter((row) => row[column] && !row[column].startsWith("not known"));
  const counts = ["gains", "gains nothing", "loses"].map((verdict) => [verdict, known.filter((row) => row[column] === verdict).length]);
  const said = counts.filter(([, n]) => n).map(([verdict, n]) => `${verdict} for ${plain.format(n)}`);
  return { known, text: `${new Intl.ListFormat("en").format(said)} of ${plain.format(known.length)}` };
}

// Of all data sets together, as the first table has them. Upper bounds and controls are no retrievers.
function verdictSentences() {
  const rows = rowsOfKey("verdicts").filter((row) => isRanked(row.retrieval_method));
  if (!rows.length) return [];
  const [popularity, signal] = [count(rows, "verdict"), count(rows, "best_signal_verdict")];
  const lead = popularity.known.length
    ? ["Retrieving below a threshold of popularity ", linked("verdicts", popularity.text), " pairs of a model and a data set"]
    : ["Whether retrieving by popularity gains anything is not known: ", linked("verdicts", "no model has both passages and popularity")];
  const judged = rows.filter((row) => row.best_signal_auroc !== null && row.popularity_auroc !== null);
  const higher = judged.filter((row) => row.best_signal_auroc > row.popularity_auroc).length;
  const range = (column) => [Math.min, Math.max].map((end) => end(...judged.map((row) => row[column])).toFixed(2)).join(" to ");
  const n = (values) => plain.format(values);
  return [make("p", { class: "finding" }, ...lead, "."), make("p", { class: "means" },
    signal.known.length ? `Deciding by the best signal of an answer ${signal.text}. ` : "",
    judged.length ? `The best signal tells right answers from wrong ones better than popularity does for ${n(higher)} of ${n(judged.length)} ` +
      `(AUROC ${range("best_signal_auroc")} against ${range("popularity_auroc")}). ` : "",
    popularity.known.length ? `For the other ${n(rows.length - popularity.known.length)} pairs it is not known; the table says why. ` : "",
    "An upper bound, whose passage was chosen because it has the answer, is left out here.")];
}

function sentences() {
  if (payload.findings) return payload.findings.map((text, at) => make("p", { class: at ? "means" : "finding" }, clean(text)));
  if (hasSeveral) return verdictSentences();
  const advice = order.model.map(clean).filter((model) => !picked.model.hidden.has(model)).map(sentence).filter(Boolean);
  const real = advice.filter((one) => !payload.invented.includes(one.model));
  const lead = best(real.length ? real : advice, "weight");
  if (lead === null) return [];
  const line = (one, of) => [make("strong", {}, isolated(one.model)), `: ${one.say(of)}: `, linked(one.figure, one.gain)];
  const rest = advice.filter((one) => one !== lead).flatMap((one, at) => [at ? "; " : " Other models: ", ...line(one, "")]);
  return [make("p", { class: "finding" }, ...line(lead, ` ${labelOf("popularity", picked.dataset)}`)), make("p", { class: "means" }, lead.means, ...rest)];
}
