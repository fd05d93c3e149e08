"use strict";
// Sorts and filters the rows that are there, and those of the matrix with them.
(() => {
  const byId = (id) => document.getElementById(id);
  // Accents and case do not count; NFKD leaves these letters whole.
  const whole = { "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i", "ß": "ss" };
  const fold = (text) => text.toLowerCase().normalize("NFKD").replace(/\p{Mn}/gu, "")
    .replace(/[æœøłđðþıß]/g, (letter) => whole[letter]);
  const table = byId("table");
  const matrix = byId("matrix");
  const beside = matrix ? Array.from(matrix.tBodies[0].rows) : [];
  const rows = Array.from(table.tBodies[0].rows, (row, i) => ({
    row, beside: beside[i], text: fold(row.textContent), status: row.dataset.status,
  }));
  const heads = Array.from(table.tHead.rows[0].cells);
  const filter = byId("filter");
  const status = byId("status");
  let column = -1;
  let down = false;

  const key = (each, at) => {
    const cell = each.row.cells[at];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const collator = new Intl.Collator(undefined, { numeric: true });
  const compare = (a, b) => (typeof a === "number" ? a - b : collator.compare(a, b));

  function sort(at, downwards) {
    column = at;
    down = downwards;
    const keys = new Map(rows.map((each) => [each, key(each, at)]));
    rows.sort((a, b) => compare(keys.get(a), keys.get(b)) * (down ? -1 : 1));
    table.tBodies[0].append(...rows.map((each) => each.row));
    if (matrix) matrix.tBodies[0].append(...rows.map((each) => each.beside));
    heads.forEach((head, i) =>
      head.setAttribute("aria-sort", i !== at ? "none" : down ? "descending" : "ascending"));
  }

  function choose() {
    const wanted = fold(filter.value.trim());
    let shown = 0;
    rows.forEach((each) => {
      const fits = each.text.includes(wanted) && (status.value === "" || each.status === status.value);
      each.row.hidden = !fits;
      if (each.beside) each.beside.hidden = !fits;
      shown += fits;
    });
    byId("count").textContent = `${shown} of ${rows.length}`;
  }

  heads.forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(i, column === i && !down));
    head.append(button);
  });
  filter.addEventListener("input", choose);
  status.addEventListener("change", choose);
  byId("tools").hidden = false;
  // #filter=…&status=…&sort=N or -N: a view that can be kept as a bookmark.
  const asked = new URLSearchParams(location.hash.slice(1));
  filter.value = asked.get("filter") || "";
  status.value = asked.get("status") || "";
  if (asked.has("sort")) {
    const at = Number(asked.get("sort"));
    sort(Math.min(Math.abs(at), heads.length) - 1, at < 0);
  }
  choose();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
