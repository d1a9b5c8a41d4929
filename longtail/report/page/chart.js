// Charts: placeholders and sizes as in longtail/report/figure.py, then Vega-Lite without eval.
const GAP = 22, WIDEST_PANEL = 430, WIDEST = 1200, UNNAMED = 15, SYMBOL = 46, AXIS = 34, AXIS_OF_NUMBERS = 84, LETTER = 7, LONGEST_LABEL = 190, LONGEST_ENTRY = 260, LANE = 9;

// What a label is for rows of one dataset, as `Dimensions.label`.
function labelOf(name, dataset) {
  const { labels, named } = payload.dimensions, measure = Object.hasOwn(named, dataset ?? "") ? clean(named[dataset]) : null;
  return measure === null ? labels[name] : name === "threshold" ? `threshold: ${measure}` : measure;
}

function resolve(spec, rows) {
  if (Array.isArray(spec)) return spec.map((item) => resolve(item, rows));
  if (spec === null || typeof spec !== "object") return spec;
  if ("$present" in spec) return present(rows, spec.$present);
  if ("$all" in spec) {
    const values = payload.dimensions.order[payload.roles[spec.$all] || spec.$all] || [];
    return values.length ? values.map(clean) : present(rows, spec.$all);
  }
  if ("$spread" in spec) {
    const n = resolve({ $all: spec.$spread }, rows).length;
    return Array.from({ length: n }, (_, at) => spec.over[Math.floor(at * (spec.over.length - 1) / Math.max(n - 1, 1))]);
  }
  if ("$label" in spec) return labelOf(spec.$label, rows[0]?.dataset);
  return Object.fromEntries(Object.entries(spec).map(([key, value]) => [key, resolve(value, rows)]));
}

function distinct(rows, name) {
  return Math.max(1, new Set(rows.map((row) => row[name])).size);
}

function axisWidth(shape, rows, label) {
  if (!shape.rows) return AXIS_OF_NUMBERS;
  const longest = rows.reduce((most, row) => Math.max(most, [...String(row[shape.rows] ?? "")].length), 0);
  return AXIS + Math.min(label, LETTER * longest);
}

function legendEntries(spec) {
  if (spec === null || typeof spec !== "object") return [];
  const colour = spec.color;
  if (colour && typeof colour === "object" && colour.scale) {
    const values = colour.legend?.values || colour.scale.domain;
    return values?.length && colour.type !== "quantitative" ? values : [];
  }
  return Object.values(spec).reduce((first, part) => (first.length ? first : legendEntries(part)), []);
}

function fit(spec, rows, available) {
  const { usermeta: meta, ...sized } = spec;
  const width = Math.min(Math.floor(available), WIDEST);
  const shape = meta.panels || meta.single;
  const label = Math.min(LONGEST_LABEL, Math.floor(width / 3));
  const room = width - axisWidth(shape, rows, label);
  const entries = legendEntries(sized), longest = entries.length ? Math.max(...entries.map((entry) => [...String(entry)].length)) : UNNAMED;
  const legendColumns = Math.max(1, Math.min(Math.floor(room / (SYMBOL + LETTER * longest)), entries.length || WIDEST));
  const labelLimit = Math.min(LONGEST_ENTRY, Math.floor(room / legendColumns) - SYMBOL);
  const config = { legend: { columns: legendColumns, labelLimit }, axisY: { labelLimit: label } };
  const step = Math.max(shape.step, shape.lanes ? LANE * (distinct(rows, shape.lanes) + 1) : 0);
  const heightOr = (otherwise) => (shape.rows ? step * distinct(rows, shape.rows) : otherwise);
  if (meta.single) {
    const autosize = { type: "fit-x", contains: "padding" };
    return { ...sized, width: "container", autosize, height: heightOr(shape.height), config };
  }
  const count = distinct(rows, shape.by), mostColumns = Math.min(count, Math.max(1, Math.floor((room + GAP) / (shape.least + GAP))));
  const columns = Math.ceil(count / Math.ceil(count / mostColumns));
  const panel = Math.min(WIDEST_PANEL, Math.floor((room - GAP * (columns - 1)) / columns));
  const height = heightOr(Math.floor(panel * shape.ratio));
  const facet = { ...sized.facet, header: { ...sized.facet.header, labelLimit: panel } };
  return { ...sized, facet, columns, spec: { ...sized.spec, width: panel, height }, config };
}

function placeRows(spec, rows) {
  const by = spec.usermeta.panels?.by;
  const values = by ? present(rows, by) : [];
  return rows.map((row) => (by ? { ...row, panel_place: values.includes(row[by]) ? values.indexOf(row[by]) : values.length } : { ...row }));
}

const hint = make("div", { class: "hint", role: "presentation", hidden: true });

// The row behind a mark, in the words of the table.
function showHint(figure, event, item, value) {
  hint.hidden = !value || !["symbol", "rect", "text"].includes(item.mark.marktype);
  if (hint.hidden) return;
  const list = make("dl"), row = item.datum;
  for (const column of columnsOf(figure, figure.selection)) {
    if (row[column.name] === null || figure.choose.includes(column.name)) continue;
    const bounds = column.interval && interval(row, column);
    const text = written(row[column.name], column.kind) + (bounds ? ` (${bounds})` : "");
    list.append(make("dt", {}, isolated(column.label)), make("dd", {}, isolated(text)));
  }
  hint.replaceChildren(list);
  const box = hint.getBoundingClientRect();
  hint.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  hint.style.top = `${event.clientY + box.height + 24 > innerHeight ? Math.max(4, event.clientY - box.height - 12) : event.clientY + 14}px`;
}

async function draw(figure, rows) {
  if (figure.view) figure.view.finalize();
  figure.view = null;
  const width = figure.place.clientWidth;
  const chart = make("div", { "aria-hidden": "true" });
  figure.place.replaceChildren(chart);
  figure.view = await embed(chart, figure, rows, fit(resolve(figure.spec, rows), rows, width), payload.config);
  figure.drawnWidth = width;
  if (figure.leads_to_answers) figure.view.view.addEventListener("click", (_event, item) => {
    if (item?.datum?.n && !["line", "area"].includes(item.mark.marktype)) location.href = answersBehind(item.datum);
  });
}

function embed(node, figure, rows, spec, base) {
  return vegaEmbed(node, { ...spec, data: { values: placeRows(figure.spec, rows) } }, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, logLevel: 1, defaultStyle: false,
    tooltip: (_handler, event, item, value) => showHint(figure, event, item, value),
    config: { ...base, axisY: spec.config.axisY, legend: { ...base.legend, ...spec.config.legend } },
  });
}

// A file has the colours of the page's theme, and says by itself what it shows, of which models and study, and when.
async function saveChart(figure, kind) {
  const style = getComputedStyle(document.documentElement);
  const paint = (value) => JSON.parse(JSON.stringify(value).replace(/var\((--[a-z0-9-]+)\)/g, (_, name) => style.getPropertyValue(name)));
  const rows = figure.selection, { width, ...spec } = fit(resolve(paint(figure.spec), rows), rows, 960);
  const models = present(rows, figure.data.names.find((name) => payload.roles[name] === "model"));
  const chosen = Object.values(figure.chosen).filter((value) => value && !models.includes(value));
  const title = { text: figure.title, subtitle: [[...chosen, models.join(", ")].filter(Boolean).join(" · "),
    `${clean(payload.study.name)}, published ${payload.study.published}`] };
  const base = paint({ ...payload.config, background: "var(--surface)",
    title: { anchor: "start", fontSize: 15, offset: 12, color: "var(--ink)", subtitleColor: "var(--muted)" } });
  const chart = await embed(make("div"), figure, rows, { ...spec, ...(width && { width: 860 }), title, padding: 14 }, base);
  const content = kind === "SVG" ? new Blob([await chart.view.toSVG()], { type: "image/svg+xml" })
    : await new Promise((then) => { chart.view.toCanvas(2).then((canvas) => canvas.toBlob(then)); });
  saveFile(`${figure.key}.${kind.toLowerCase()}`, content);
  chart.finalize();
}
