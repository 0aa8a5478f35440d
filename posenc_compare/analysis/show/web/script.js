"use strict";
// Sorts tables by a click on a heading, the better end first, and shows the schemes of
// chosen families. Nothing depends on it: without a script the page shows all there is.
const number = (row, column) => column ? parseFloat(row.cells[column].textContent) : NaN;
const words = (row, column) => row.cells[column].textContent;

function compare(one, other, column, sign) {
  const [a, b] = [number(one, column), number(other, column)];
  if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1; // what has no number is last
  if (isNaN(a)) return sign * words(one, column).localeCompare(words(other, column));
  return sign * (a - b);
}

function sort(head, written) {
  const table = head.closest("table");
  const title = document.getElementById(table.getAttribute("aria-labelledby"));
  const [arrow] = /[↑↓]|$/.exec(head.textContent + (head.cellIndex ? title.textContent : ""));
  const first = arrow === "↑" ? "descending" : "ascending";
  const second = first === "ascending" ? "descending" : "ascending";
  const next = { none: first, [first]: second, [second]: "none" }[head.ariaSort ?? "none"];
  for (const other of head.parentNode.cells) other.ariaSort = "none";
  head.ariaSort = next;
  const sign = next === "ascending" ? 1 : -1;
  const rows = [...written];
  if (next !== "none") rows.sort((a, b) => compare(a, b, head.cellIndex, sign));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table.results")) {
  const written = [...table.tBodies[0].rows];
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head, written));
    head.append(button);
    head.ariaSort = "none";
  }
}

const tools = document.getElementById("tools");

function filter() {
  const chosen = new Set([...tools.querySelectorAll("input:checked")].map((box) => box.value));
  const text = tools.elements.name.value.trim().toLowerCase();
  const [all, shown] = [new Set(), new Set()];
  for (const item of document.querySelectorAll("[data-scheme]")) {
    const name = item.dataset.scheme;
    item.hidden = !chosen.has(item.dataset.family) || !name.toLowerCase().includes(text);
    all.add(name);
    if (!item.hidden) shown.add(name);
  }
  tools.querySelector("output").value = `${shown.size} of ${all.size} schemes shown`;
}

function reveal() { // what an anchor leads to is shown, whatever is filtered or folded
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.hidden) { tools.reset(); filter(); }
  for (let node = target; node; node = node.parentElement) if (node.localName === "details") node.open = true;
  target.scrollIntoView();
}

if (tools) {
  tools.hidden = false;
  tools.addEventListener("input", filter);
  tools.querySelector("button").addEventListener("click", () => { tools.reset(); filter(); });
  tools.addEventListener("submit", (event) => event.preventDefault());
}
addEventListener("hashchange", reveal);
