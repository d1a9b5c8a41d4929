// Charts: placeholders and sizes as core/report/charts.py has them, then Vega-Lite without eval.
const GAP = 22, WIDEST_PANEL = 430, WIDEST = 1200, LEGEND_ENTRY = 150;

function resolve(spec, rows) {
  if (Array.isArray(spec)) return spec.map((item) => resolve(item, rows));
  if (spec === null || typeof spec !== "object") return spec;
  if ("$present" in spec) return present(rows, spec.$present);
  if ("$all" in spec) {
    const whole = payload.dimensions.order[payload.roles[spec.$all] || spec.$all] || [];
    return whole.length ? whole.map(clean) : present(rows, spec.$all);
  }
  if ("$label" in spec) return payload.dimensions.labels[spec.$label];
  return Object.fromEntries(Object.entries(spec).map(([key, value]) => [key, resolve(value, rows)]));
}

function distinct(rows, name) {
  return Math.max(1, new Set(rows.map((row) => row[name])).size);
}

function fitted(spec, rows, available) {
  const { usermeta: meta, ...sized } = spec;
  const width = Math.min(Math.floor(available), WIDEST);
  const config = { legend: { columns: Math.max(1, Math.floor(width / LEGEND_ENTRY)) } };
  const tall = (shape, otherwise) => (shape.rows ? shape.step * distinct(rows, shape.rows) : otherwise);
  if (meta.single) {
    const autosize = { type: "fit-x", contains: "padding" };
    return { ...sized, width: "container", height: tall(meta.single, meta.single.height), autosize, config };
  }
  const shape = meta.panels;
  const room = width - shape.axis;
  const columns = Math.min(distinct(rows, shape.by), Math.max(1, Math.floor((room + GAP) / (shape.least + GAP))));
  const panel = Math.min(WIDEST_PANEL, Math.floor((room - GAP * (columns - 1)) / columns));
  const height = tall(shape, Math.floor(panel * shape.ratio));
  return { ...sized, columns, spec: { ...sized.spec, width: panel, height }, config };
}

function placed(spec, rows) {
  const by = spec.usermeta.panels?.by;
  const values = by ? present(rows, by) : [];
  return rows.map((row) => (by ? { ...row, panel_place: values.includes(row[by]) ? values.indexOf(row[by]) : values.length } : { ...row }));
}

const hint = make("div", { class: "hint", role: "presentation", hidden: true });

function showHint(_handler, event, _item, value) {
  if (value === null || value === undefined || value === "") { hint.hidden = true; return; }
  const list = make("dl");
  for (const [name, text] of Object.entries(value)) {
    if (text === "null" || text === "undefined" || text === "NaN") continue;
    list.append(make("dt", {}, isolated(name)), make("dd", {}, isolated(text)));
  }
  hint.replaceChildren(list);
  hint.hidden = false;
  const box = hint.getBoundingClientRect();
  hint.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  hint.style.top = `${event.clientY + box.height + 24 > innerHeight ? event.clientY - box.height - 12 : event.clientY + 14}px`;
}

async function draw(figure, rows, place) {
  if (figure.view) figure.view.finalize();
  figure.view = null;
  const available = place.clientWidth;
  const spec = fitted(resolve(figure.spec, rows), rows, available);
  const result = await vegaEmbed(place, { ...spec, data: { values: placed(figure.spec, rows) } }, {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: showHint,
    config: { ...payload.config, legend: { ...payload.config.legend, ...spec.config.legend } },
  });
  figure.view = result;
  figure.drawnAt = available;
  const svg = place.querySelector("svg");
  if (svg) svg.setAttribute("aria-hidden", "true");
}
