"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;

  document.getElementById("theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    document.dispatchEvent(new Event("theme"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.dispatchEvent(new Event("theme"));
  });

  /* Tables: a click on a head sorts, numbers by `data-v`; a second one turns round. */
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) return cell.textContent.trim().toLowerCase();
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const sortBy = (head) => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const first = head.dataset.sort === "number" ? "descending" : "ascending";
    const other = first === "ascending" ? "descending" : "ascending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    all("th", table).forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    });
    body.append(...rows.map(([, row]) => row));
  };
  all("th[data-sort]").forEach((head) => {
    head.tabIndex = 0;
    head.addEventListener("click", () => sortBy(head));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sortBy(head); }
    });
  });
  all("input[data-filter]").forEach((input) => {
    const rows = all("tbody tr", document.getElementById(input.dataset.filter));
    const shown = document.getElementById(`${input.dataset.filter}-shown`);
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/);
      let count = 0;
      rows.forEach((row) => {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        count += !row.hidden;
      });
      if (shown) shown.textContent = `${count} of ${rows.length}`;
    });
  });

  /* One layer at a time is chosen: its facts are shown, and it is marked everywhere. */
  const source = document.getElementById("facts-data"), pane = document.getElementById("facts");
  if (source && pane) {
    const layers = JSON.parse(source.textContent);
    const choose = (number, from) => {
      all(".chosen").forEach((element) => element.classList.remove("chosen"));
      all(`[data-layer="${number}"]`).forEach((element) => {
        element.classList.add("chosen");
        const box = element.closest(".pane");
        if (box && box !== from) {
          const inside = element.getBoundingClientRect(), outside = box.getBoundingClientRect();
          box.scrollTop += inside.top - outside.top - box.clientHeight / 2;
        }
      });
      const layer = layers[number], list = document.createElement("dl");
      const title = document.createElement("h3");
      title.textContent = layer.title;
      for (const [key, text] of layer.facts) {
        const term = document.createElement("dt"), told = document.createElement("dd");
        term.textContent = key;
        told.textContent = text;
        list.append(term, told);
      }
      pane.replaceChildren(title, list);
    };
    document.addEventListener("click", (event) => {
      const element = event.target.closest("[data-layer]");
      if (element) choose(element.dataset.layer, element.closest(".pane"));
    });
    const longest = Number(source.dataset.first);
    if (layers[longest]) choose(longest, null);
  }

  all(".copy").forEach((button) => button.addEventListener("click", () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    const done = () => { button.textContent = "copied"; };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => {});
  }));

  /* The entry of the section that is read is marked. */
  const links = all(".side a[href^='#']");
  const sections = links.map((link) => document.querySelector(link.getAttribute("href")));
  const mark = () => {
    let at = 0;
    sections.forEach((section, i) => {
      if (section && section.getBoundingClientRect().top < innerHeight / 3) at = i;
    });
    links.forEach((link, i) => link.classList.toggle("here", i === at));
  };
  addEventListener("scroll", mark, { passive: true });
  mark();
})();
