// The page: banner, pickers, tiles, sections, provenance. A figure is drawn when it comes near the screen. The browser
// draws the others when it is idle, so that they can be printed.
const figures = payload.figures;

function tile(name, value, text) {
  return make("div", { class: "tile" }, make("dt", {}, name), make("dd", {}, make("strong", {}, value), make("span", {}, text)));
}

const percent = (value) => `${(100 * value).toFixed(1)} %`;
const points = (value) => `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(2)}`;

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
  const rowsOfKey = (key) => figures.filter((figure) => figure.key === key && !figure.missing).flatMap(pickedRows);
  const rows = rowsOfKey("headline").filter((row) => !payload.unranked.includes(row.method));
  const memory = best(rows.filter((row) => payload.parametric.includes(row.method)), "accuracy");
  const reading = best(rows.filter((row) => !payload.parametric.includes(row.method)), "accuracy");
  return [
    memory && accuracyTile("Best from memory", memory),
    reading && accuracyTile("Best with a retrieved passage", reading),
    ...gainTiles(rowsOfKey("adaptive_gain").filter((row) => !payload.unranked.includes(row.retrieval_method))),
  ].filter(Boolean);
}

function provenance() {
  const list = make("dl", { class: "provenance" });
  for (const [name, value] of Object.entries(payload.provenance)) {
    const values = Array.isArray(value) ? value : [value];
    list.append(make("dt", {}, name), make("dd", { class: values.length > 9 ? "long" : null }, ...values.flatMap((one, at) => [at ? make("br") : "", isolated(one)])));
  }
  return list;
}

function sectionNode(section) {
  const mine = figures.filter((figure) => figure.section === section.key);
  if (!mine.length) return null;
  const shown = mine.filter((figure) => !figure.missing);
  const absent = mine.filter((figure) => figure.missing);
  const cards = [...shown, ...absent].map(figureCard);
  const opening = section === payload.sections[0];  // it has the main curve, if there is one, then its numbers
  if (opening) cards.splice(shown[0]?.kind === "chart" ? 1 : 0, 0, tileList);
  return make("section", { id: section.key, "aria-labelledby": `${section.key}-title` },
    make("h2", { id: `${section.key}-title`, class: opening ? "unseen" : null }, section.title),
    section.lead ? make("p", { class: "lead" }, section.lead) : null, ...cards);
}

function navigation() {
  const entries = [...payload.sections.filter((section) => figures.some((figure) => figure.section === section.key)),
    { key: "provenance", title: "Provenance" }];
  return make("nav", { class: "contents", "aria-label": "Contents" },
    make("ol", {}, ...entries.map((entry) => make("li", {}, make("a", { href: `#${entry.key}` }, entry.title)))));
}

const tileList = make("dl", { class: "tiles" });

function changed() {
  for (const figure of figures) figure.stale = true;
  tileList.replaceChildren(...tiles());
  for (const figure of figures) if (figure.near) refresh(figure);
  drawTheRest();
}

let idle = null;
function drawTheRest() {
  if (idle !== null) return;
  const later = window.requestIdleCallback ? (then) => requestIdleCallback(then, { timeout: 300 }) : (then) => setTimeout(then, 50);
  idle = later(async () => {
    const next = figures.find((figure) => figure.stale && !figure.missing);
    if (next) await refresh(next);
    idle = null;
    if (next) { drawTheRest(); return; }
    document.documentElement.dataset.drawn = "all";
    letGo();
  });
}

// A permalink (report.html#latency): its target stays at the top while the figures above it are drawn, until the reader
// scrolls or does anything else.
let letGo = () => {};
function holdTarget() {
  letGo();
  const target = document.getElementById(location.hash.slice(1));
  if (!target || document.documentElement.dataset.drawn) return;
  const aim = () => target.scrollIntoView({ behavior: "instant" });
  const growth = new ResizeObserver(aim);
  growth.observe(document.getElementById("main"));
  const acted = new AbortController();
  const stop = () => { growth.disconnect(); acted.abort(); letGo = () => {}; };
  for (const act of ["wheel", "touchmove", "mousedown", "keydown"]) addEventListener(act, stop, { passive: true, signal: acted.signal });
  letGo = () => { aim(); stop(); };  // a page in the background observes nothing
}

// A target is shown below the bar, which is as high as its pickers need.
function keepBelow(bar) {
  new ResizeObserver(() => {
    const covered = getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
    document.documentElement.style.scrollPaddingTop = `${covered + 16}px`;
  }).observe(bar);
}

function watch() {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const figure = figures.find((one) => one.card === entry.target);
      figure.near = entry.isIntersecting;
      if (figure.near && figure.stale) refresh(figure);
    }
  }, { rootMargin: "400px" });
  for (const figure of figures) if (!figure.missing) seen.observe(figure.card);
  let waiting = null;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const figure of figures) if (figure.view && figure.place.clientWidth !== figure.drawnAt) figure.stale = true;
      for (const figure of figures) if (figure.near && figure.stale) refresh(figure);
      drawTheRest();
    }, 150);
  });
}

function start() {
  document.title = `${clean(payload.study.name)} · Longtail report`;
  const mast = make("header", { class: "mast" },
    make("p", { class: "brand" }, "Longtail"),
    make("h1", { dir: "auto" }, clean(payload.study.description || payload.study.name)),
    make("p", { class: "sub" }, "When not to trust a language model: accuracy against popularity, retrieval, and the threshold between them. Study ",
      isolated(payload.study.name), `, published ${payload.study.published}.`));
  const banner = payload.banner ? make("aside", { class: "banner", role: "note", "aria-label": "Limits of this report" }, make("strong", {}, payload.banner.title), " ", payload.banner.text) : null;
  const bar = make("div", { class: "bar", role: "region", "aria-label": "Selection" },
    oneOf("dataset", "Dataset"), oneOf("prompt", "Prompt"), someOf("model", "Models"), someOf("method", "Methods"), themeButton());
  const main = make("main", { id: "main", tabindex: "-1" }, banner, ...payload.sections.map(sectionNode).filter(Boolean),
    make("section", { id: "provenance", "aria-labelledby": "provenance-title" },
      make("h2", { id: "provenance-title" }, "Provenance"),
      make("p", { class: "lead" }, "Every number above comes from the published warehouse. Each figure has its query."),
      make("div", { class: "card" }, provenance())));
  document.getElementById("page").replaceChildren(mast, bar, make("div", { class: "columns" }, navigation(), main));
  document.body.append(hint);
  keepBelow(bar);
  watch();
  changed();
  addEventListener("hashchange", holdTarget);
  holdTarget();
}

addEventListener("keydown", (event) => { if (event.key === "Escape") hint.hidden = true; });
addEventListener("scroll", () => { hint.hidden = true; }, { passive: true });
start();
