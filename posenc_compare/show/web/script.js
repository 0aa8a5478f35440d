"use strict";
// Sorts tables by a click on a heading: up, down, and as they were written.
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

function compare(one, other, column, sign) {
  const [a, b] = [one, other].map((row) => {
    const cell = row.cells[column];
    return parseFloat(cell.dataset.value ?? cell.textContent);
  });
  if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1; // what has no number is last
  if (!isNaN(a)) return sign * (a - b);
  const [text, more] = [one, other].map((row) => row.cells[column].textContent);
  return sign * text.localeCompare(more);
}

function sort(head, written) {
  const next = NEXT[head.ariaSort];
  for (const other of head.parentNode.cells) other.ariaSort = "none";
  head.ariaSort = next;
  const rows = [...written];
  const sign = next === "ascending" ? 1 : -1;
  if (next !== "none") rows.sort((a, b) => compare(a, b, head.cellIndex, sign));
  head.closest("table").tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table")) {
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
