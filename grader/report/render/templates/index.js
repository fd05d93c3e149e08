"use strict";
// Sorts and filters the rows that are there, and draws a line of the matrix for each that shows.
(() => {
  const byId = (id) => document.getElementById(id);
  const body = byId("results");
  const rows = Array.from(body.rows, (row) => ({
    row,
    text: row.textContent.toLowerCase(),
    ends: row.dataset.ends,
    status: row.dataset.status,
    student: row.cells[0].textContent.trim(),
  }));
  const claims = Array.from(byId("claims").content.children, (each) => each.textContent);
  const canvas = byId("matrix");
  const said = byId("said");
  const filter = byId("filter");
  const status = byId("status");
  let shown = rows;
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
    const fragment = document.createDocumentFragment();
    rows.forEach((each) => fragment.append(each.row));
    body.append(fragment);
    heads.forEach((head, i) =>
      head.setAttribute("aria-sort", i !== at ? "none" : down ? "descending" : "ascending"));
    choose();
  }

  function choose() {
    const wanted = filter.value.trim().toLowerCase();
    shown = rows.filter((each) =>
      each.text.includes(wanted) && (status.value === "" || each.status === status.value));
    const visible = new Set(shown);
    rows.forEach((each) => { each.row.hidden = !visible.has(each); });
    byId("count").textContent = `${shown.length} of ${rows.length}`;
    draw();
  }

  const height = () => Math.max(1, Math.min(8, Math.floor(15000 / Math.max(1, shown.length))));
  const width = 8;

  function draw() {
    const colours = getComputedStyle(document.documentElement);
    const colour = {
      p: colours.getPropertyValue("--good"), f: colours.getPropertyValue("--bad"),
      c: colours.getPropertyValue("--ink"), n: colours.getPropertyValue("--line"),
    };
    const high = height();
    canvas.width = Math.max(1, claims.length * width);
    canvas.height = Math.max(1, shown.length * high);
    const context = canvas.getContext("2d");
    shown.forEach((each, y) => {
      for (let x = 0; x < each.ends.length; x += 1) {
        const fill = colour[each.ends[x]];
        if (fill) {
          context.fillStyle = fill;
          context.fillRect(x * width, y * high, width - 1, high > 2 ? high - 1 : high);
        }
      }
    });
  }

  const heads = Array.from(document.querySelectorAll("#table thead th"));
  heads.forEach((head, i) => {
    head.querySelector("button").addEventListener("click", () => sort(i, column === i && !down));
  });
  filter.addEventListener("input", choose);
  status.addEventListener("change", choose);
  const words = { p: "holds", f: "does not hold", c: "crashed or ended", n: "not tried" };
  canvas.addEventListener("mousemove", (event) => {
    const each = shown[Math.floor(event.offsetY / height())];
    const x = Math.floor(event.offsetX / width);
    if (each && claims[x]) {
      said.textContent = `${each.student}: ${claims[x]} (${words[each.ends[x]] || "not asked"})`;
    }
  });
  // #filter=…&status=…&sort=N or -N: a view that can be kept as a bookmark.
  const asked = new URLSearchParams(location.hash.slice(1));
  filter.value = asked.get("filter") || "";
  status.value = asked.get("status") || "";
  if (asked.has("sort")) {
    const at = Number(asked.get("sort"));
    sort(Math.min(Math.abs(at), heads.length) - 1, at < 0);
  } else {
    choose();
  }
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
