// The reader's selection for all figures, and the theme.
const order = payload.dimensions.order;
const picked = {
  dataset: clean(payload.start.dataset), prompt: clean(payload.start.prompt),
  model: { hidden: new Set() }, method: { hidden: new Set() },
};

function oneOf(role, label) {
  const values = order[role].map(clean);
  const select = make("select", { id: `pick-${role}`, on: { change: () => { picked[role] = select.value; changed(); } } },
    ...values.map((value) => make("option", { value, selected: value === picked[role] }, value)));
  select.value = picked[role];
  return make("label", { class: "pick", for: select.id, hidden: values.length < 2 }, label, select);
}

function someOf(role, label) {
  const values = order[role].map(clean);
  const count = make("span", { class: "count" }, `all ${values.length}`);
  const boxes = values.map((value) => make("input", { type: "checkbox", checked: true, value, on: { change: update } }));
  const all = make("button", { type: "button", class: "plain", on: { click: () => { boxes.forEach((box) => { box.checked = true; }); update(); } } }, "All");
  function update() {
    picked[role].hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
    const n = boxes.filter((box) => box.checked).length;
    count.textContent = n === values.length ? `all ${n}` : `${n} of ${values.length}`;
    changed();
  }
  const list = make("fieldset", {}, make("legend", { class: "unseen" }, label),
    ...values.map((value, at) => make("label", {}, boxes[at], isolated(value))), all);
  const box = make("details", { class: "pick", name: "pickers" }, make("summary", {}, `${label}: `, count), list);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.open) { box.open = false; box.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) box.open = false; });
  return box;
}

function themeButton() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const stored = (() => { try { return localStorage.getItem("longtail-theme"); } catch { return null; } })();
  if (stored === "light" || stored === "dark") root.dataset.theme = stored;
  const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const button = make("button", { type: "button", class: "theme" });
  const label = () => {
    button.textContent = now() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to ${now() === "dark" ? "light" : "dark"} colours`);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    try { localStorage.setItem("longtail-theme", root.dataset.theme); } catch { /* a page may be denied storage */ }
    label();
  });
  dark.addEventListener("change", label);
  label();
  return button;
}
