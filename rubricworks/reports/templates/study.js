"use strict";
const columns = JSON.parse(document.body.dataset.columns);
const rows = [...document.querySelectorAll(".row")];
const answers = (row) => [...row.querySelectorAll("fieldset")].map((one) => [one.dataset.column, one.querySelector("input:checked")?.value ?? ""]);
const complete = (row) => answers(row).every(([, value]) => value !== "");
const progress = () => {
  document.getElementById("progress").textContent = `${rows.filter(complete).length} of ${rows.length}`;
  for (const row of rows) row.classList.toggle("complete", complete(row));
};
const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const table = () => {
  const rater = document.getElementById("rater").value.trim();
  const lines = rows.map((row) => {
    const values = { ...JSON.parse(row.dataset.cells), ...Object.fromEntries(answers(row)), rater };
    return columns.map((name) => cell(String(values[name] ?? ""))).join(",");
  });
  return [columns.join(","), ...lines, ""].join("\r\n");
};
document.addEventListener("change", progress);
document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = "data:text/csv;charset=utf-8," + encodeURIComponent("\ufeff" + table());
  link.download = "labels.csv";
  link.click();
});
progress();
