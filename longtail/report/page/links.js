// Addresses of answers.html. A row of a figure leads to the answers that it counts; a key to one answer.
function answersBehind(row) {
  const chosen = new URLSearchParams();
  const values = { dataset: row.dataset, prompt: row.prompt, model: row.model, method: row.method ?? row.retrieval_method,
    relation: row.relation === "all" ? null : row.relation, outcome: row.outcome, with: row.outcome && row.parametric_method,
    popularity_from: row.bin_low, popularity_below: row.bin_high };
  for (const [name, value] of Object.entries(values)) if (value !== null && value !== undefined) chosen.set(name, value);
  return `answers.html?${chosen}`;
}

const addressOf = (key, chosen = []) => `answers.html?${new URLSearchParams({ ...Object.fromEntries(chosen), open: JSON.stringify(key) })}`;
