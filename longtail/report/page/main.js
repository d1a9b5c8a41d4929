// The page: banner, pickers, story, chapters, provenance. A figure is drawn when it comes near the screen; the others of
// open chapters when the browser is idle. Printing opens all chapters.
function provenance() {
  const list = make("dl", { class: "provenance" });
  for (const [name, value] of Object.entries(payload.provenance)) {
    const values = Array.isArray(value) ? value : [value];
    list.append(make("dt", {}, name), make("dd", { class: values.length > 9 ? "long" : null }, ...values.flatMap((one, at) => [at ? make("br") : "", isolated(one)])));
  }
  return list;
}

function sectionNode(section) {
  const shown = figures.filter((figure) => figure.section === section.key && !figure.missing);
  const opening = section === payload.sections[0];
  if (!shown.length && !opening) return null;
  const cards = shown.map(figureCard);
  section.nothing = make("p", { class: "empty", hidden: true });
  const node = part(section, opening, ...(opening ? [findings] : []), ...cards, section.nothing);
  section.chapter = node.querySelector(".chapter");
  return node;
}

// Figures without a row for the selection fold into a line of their section. A chapter of results is open while it has any.
function fold() {
  for (const section of payload.sections.filter((one) => one.nothing)) {
    const all = figures.filter((figure) => figure.section === section.key && figure.card);
    for (const figure of all) figure.card.hidden = !selected(figure).length;
    const empty = all.filter((figure) => figure.card.hidden), hasRows = empty.length < all.length;
    section.nothing.hidden = !empty.length;
    section.nothing.textContent = `Nothing to draw: ${empty.map((figure) => figure.title).join(" · ")}`;
    if (section.chapter && section.hasRows !== hasRows) section.chapter.open = hasRows && (section.has_results || !tellsStory);
    section.hasRows = hasRows;
  }
}

// A study without the main curve opens all its chapters.
const tellsStory = figures.some((figure) => figure.section === payload.sections[0].key && !figure.missing);

function part(section, isUntitled, ...content) {
  const title = make("h2", { id: `${section.key}-title`, class: isUntitled ? "unseen" : null }, section.title);
  const lead = section.lead && make("p", { class: "lead" }, section.lead);
  return make("section", { id: section.key, "aria-labelledby": title.id }, ...(section.is_chapter
    ? [make("details", { class: "chapter", on: { toggle: drawTheRest } }, make("summary", {}, title, lead), ...content)]
    : [title, lead || null, ...content]));
}

function notShown() {
  const missing = figures.filter((figure) => figure.missing);
  if (!missing.length) return null;
  return make("details", { class: "absent" }, make("summary", {}, `Figures that this study does not have (${missing.length})`),
    make("ul", {}, ...missing.map((figure) => make("li", { id: figure.key }, make("strong", {}, figure.title), ". ", clean(figure.missing)))));
}

function navigation(sections) {
  return make("nav", { class: "contents", id: "contents", "aria-label": "Contents" },
    make("ol", {}, ...sections.map((one) => make("li", {}, make("a", { href: `#${one.id}` }, one.querySelector("h2").textContent))),
      payload.answers && make("li", {}, make("a", { href: payload.answers }, "All answers"))));
}

function changed() {
  for (const figure of figures) figure.stale = true;
  fold();
  printSelection();
  findings.replaceChildren(...sentences());
  for (const figure of figures) if (figure.near) refresh(figure);
  drawTheRest();
}

const waits = (figure) => figure.stale && figure.card && !figure.card.hidden && !figure.card.closest("details.chapter:not([open])");

let idle = null;
function drawTheRest() {
  if (figures.some(waits)) delete document.documentElement.dataset.drawn;
  if (idle !== null) return;
  const later = window.requestIdleCallback ? (then) => requestIdleCallback(then, { timeout: 300 }) : (then) => setTimeout(then, 50);
  idle = later(async () => {
    const next = figures.find(waits);
    if (next) await refresh(next);
    idle = null;
    if (next) { drawTheRest(); return; }
    document.documentElement.dataset.drawn = "all";
    letGo();
  });
}

// A permalink (report.html#latency) opens the chapter of its target. The target stays at the top while the figures above
// it are drawn, until the reader scrolls or does anything else.
let letGo = () => {};
function holdTarget() {
  letGo();
  let target = document.getElementById(location.hash.slice(1));
  if (target?.hidden) target = target.closest("section");
  const inside = target?.querySelector(":scope > details") || target;
  for (let box = inside?.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  drawTheRest();
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
  for (const figure of figures) if (figure.card) seen.observe(figure.card);
  let waiting = null;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const figure of figures) if (figure.view && figure.place.clientWidth !== figure.drawnWidth) figure.stale = true;
      for (const figure of figures) if (figure.near && figure.stale) refresh(figure);
      drawTheRest();
    }, 150);
  });
}

// The table of contents marks the section that is read.
function follow(sections, links) {
  const mark = () => {
    const at = Math.max(0, sections.findLastIndex((one) => one.getBoundingClientRect().top < innerHeight / 3));
    links.forEach((link, place) => link.setAttribute("aria-current", place === at ? "location" : "false"));
  };
  addEventListener("scroll", () => requestAnimationFrame(mark), { passive: true });
  mark();
}

function start() {
  document.title = `${clean(payload.study.name)} · Longtail report`;
  const mast = make("header", { class: "mast" },
    make("p", { class: "brand" }, "Longtail"),
    make("h1", { dir: "auto" }, clean(payload.study.description || payload.study.name)),
    make("p", { class: "sub" }, payload.lead, " Study ", isolated(payload.study.name), `, published ${payload.study.published}.`));
  const banner = payload.banner ? make("aside", { class: "banner", role: "note", "aria-label": "Limits of this report" }, make("strong", {}, payload.banner.title), " ", payload.banner.text) : null;
  const bar = make("div", { class: "bar", id: "bar", role: "region", "aria-label": "Selection" },
    oneOf("dataset", "Dataset"), oneOf("prompt", "Prompt"), someOf("model", "Models"), someOf("method", "Methods"));
  const origin = { key: "provenance", title: "Provenance", lead: "Every number above comes from the published warehouse. Each figure has its query.", is_chapter: true };
  const sections = [...payload.sections.map(sectionNode).filter(Boolean), part(origin, false, make("div", { class: "card" }, provenance()))];
  const contents = navigation(sections);
  const main = make("main", { id: "main", tabindex: "-1" }, banner, printed, ...sections, notShown());
  const folds = make("div", { class: "folds" }, folding("Contents", contents), folding("Selection", bar));
  document.getElementById("page").replaceChildren(mast, folds, bar, make("div", { class: "columns" }, contents, main));
  document.body.append(hint);
  keepBelow(bar);
  watch();
  follow(sections, [...contents.querySelectorAll("a")]);
  changed();
  addEventListener("hashchange", holdTarget);
  holdTarget();
}

addEventListener("keydown", (event) => { if (event.key === "Escape") hint.hidden = true; });
addEventListener("beforeprint", () => {
  const folded = [...document.querySelectorAll("main details:is(.chapter, .absent):not([open])")];
  for (const box of folded) box.open = true;
  for (const figure of figures) if (figure.stale && figure.card) refresh(figure);
  addEventListener("afterprint", () => { for (const box of folded) box.open = false; }, { once: true });
});
addEventListener("scroll", () => { hint.hidden = true; }, { passive: true });
start();
