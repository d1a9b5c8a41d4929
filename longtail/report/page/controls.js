// The reader's selection for all figures.
const order = payload.dimensions.order;
const asked = new URLSearchParams(location.search);
const picked = Object.fromEntries([
  ...["dataset", "prompt"].map((role) => [role, order[role].map(clean).find((value) => value === asked.get(role)) ?? clean(payload.start[role])]),
  ...["model", "method"].map((role) => {
    const values = order[role].map(clean), wanted = asked.getAll(role);
    const known = wanted.includes("") || values.some((value) => wanted.includes(value));
    return [role, { hidden: new Set(known ? values.filter((value) => !wanted.includes(value)) : []) }];
  }),
]);

// The address keeps what is picked, so that a link shows what its sender saw: report.html?model=a&latency.prompt=p#latency.
function remember(name, ...values) {
  asked.delete(name);
  for (const value of values) asked.append(name, value);
  history.replaceState(null, "", `${location.pathname}${String(asked) && "?"}${asked}${location.hash}`);
}

function oneOf(role, label) {
  const values = order[role].map(clean);
  const select = make("select", { id: `pick-${role}`, on: { change: () => { picked[role] = select.value; remember(role, select.value); changed(); } } },
    ...values.map((value) => make("option", { value, selected: value === picked[role] }, value)));
  select.value = picked[role];
  return make("label", { class: "pick", for: select.id, hidden: values.length < 2 }, label, select);
}

function someOf(role, label) {
  const values = order[role].map(clean);
  const count = make("span", { class: "count" });
  const boxes = values.map((value) => make("input", { type: "checkbox", checked: !picked[role].hidden.has(value), value, on: { change: update } }));
  const all = make("button", { type: "button", class: "plain", on: { click: () => { boxes.forEach((box) => { box.checked = true; }); update(); } } }, "All");
  const tell = (n) => { count.textContent = n === values.length ? `all ${n}` : `${n} of ${values.length}`; };
  function update() {
    const [shown, hidden] = [true, false].map((on) => boxes.filter((box) => box.checked === on).map((box) => box.value));
    picked[role].hidden = new Set(hidden);
    tell(shown.length);
    remember(role, ...(hidden.length ? (shown.length ? shown : [""]) : []));
    changed();
  }
  tell(values.length - picked[role].hidden.size);
  const list = make("fieldset", {}, make("legend", { class: "unseen" }, label),
    ...values.map((value, at) => make("label", {}, boxes[at], isolated(value))), all);
  const box = make("details", { class: "pick", name: "pickers" }, make("summary", {}, `${label}: `, count), list);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && box.open) { box.open = false; box.querySelector("summary").focus(); }
  });
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) box.open = false; });
  return box;
}

// In print, text stands for the pickers.
const printed = make("p", { class: "selection" });
function printSelection() {
  const chosen = ["dataset", "prompt"].filter((role) => order[role].length).map((role) => [role, picked[role]]);
  for (const role of ["model", "method"]) {
    const all = order[role].map(clean), shown = all.filter((value) => !picked[role].hidden.has(value));
    chosen.push([`${role}s`, shown.length === all.length ? `all ${all.length}` : shown.join(", ") || "none"]);
  }
  printed.replaceChildren(...chosen.flatMap(([name, value], at) => [`${at ? " · " : ""}${name}: `, isolated(value)]));
}

// On a narrow screen a button folds what it controls.
function folding(label, node) {
  const button = make("button", { type: "button", class: "fold plain", "aria-expanded": "false", "aria-controls": node.id, on: { click: () => {
    button.setAttribute("aria-expanded", String(node.classList.toggle("unfolded")));
  } } }, label);
  return button;
}
