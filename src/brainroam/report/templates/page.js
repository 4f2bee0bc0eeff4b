"use strict";
(() => {
  // Theme: the reader's system decides until the button does.
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; };
  try { root.dataset.theme = localStorage.getItem("brainroam-theme") || ""; } catch { /* a browser may forbid it */ }
  if (!root.dataset.theme) delete root.dataset.theme;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("brainroam-theme", root.dataset.theme); } catch { /* see above */ }
    label();
  });
  system.addEventListener("change", label);
  button.hidden = false;
  label();

  // Tables: sort by a heading; what is missing stays last.
  const value = (row, column) => row.cells[column].dataset.value;
  function compare(a, b, direction) {
    if (a === "" || b === "") return (a === "") - (b === "");
    const numbers = [Number(a), Number(b)];
    const order = numbers.some(Number.isNaN) ? a.localeCompare(b, undefined, { numeric: true }) : numbers[0] - numbers[1];
    return direction * order;
  }
  function sort(table, column) {
    const head = table.tHead.rows[0].cells[column], descending = head.getAttribute("aria-sort") === "ascending";
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(value(a, column), value(b, column), descending ? -1 : 1));
    table.tBodies[0].append(...rows);
  }

  // CSV: values in full; text that a spreadsheet would run as a formula stands behind an apostrophe.
  function csvCell(text) {
    if (/^[=+\-@\t\r\n']/.test(text) && Number.isNaN(Number(text))) text = "'" + text;
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  }
  function download(table) {
    const head = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    const body = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.dataset.value));
    const text = [head, ...body].map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    link.download = table.dataset.name + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  for (const table of document.querySelectorAll("table[data-name]")) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const heading = document.createElement("button");
      heading.type = "button";
      heading.textContent = cell.textContent;
      heading.title = cell.title;
      heading.addEventListener("click", () => sort(table, column));
      cell.replaceChildren(heading);
    });
    const save = document.createElement("button");
    save.type = "button";
    save.className = "tool";
    save.textContent = "Download CSV";
    save.setAttribute("aria-label", "Download CSV: " + table.caption.textContent);
    save.addEventListener("click", () => download(table));
    const tools = document.createElement("div");
    tools.className = "tools";
    tools.append(save);
    table.parentElement.after(tools);
  }

  for (const copy of document.querySelectorAll("[data-copy]")) {
    copy.addEventListener("click", async () => {
      const text = document.getElementById(copy.dataset.copy).innerText;
      try { await navigator.clipboard.writeText(text); copy.textContent = "Copied"; } catch {
        getSelection().selectAllChildren(document.getElementById(copy.dataset.copy));
        copy.textContent = "Selected: press Ctrl+C";
      }
    });
  }

  // Contents: folded on a phone, and showing where the reader is.
  const contents = document.querySelector("nav details"), narrow = matchMedia("(max-width: 60rem)");
  const fold = () => { contents.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -80% 0px" });
  for (const section of document.querySelectorAll("main .layout section, #add")) seen.observe(section);
  // Sections are folded until they are asked for: by their title, by a link to them or into them, or all at once.
  const folds = [...document.querySelectorAll("details.fold")];
  function reveal(hash) {
    const target = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
    if (!target) return;
    const inside = target.closest("details.fold") ?? target.querySelector(":scope > details.fold");
    if (inside && !inside.open) { inside.open = true; target.scrollIntoView(); }
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link) reveal(link.hash);
  });
  addEventListener("hashchange", () => reveal(location.hash));
  reveal(location.hash);
  const unfold = document.getElementById("unfold");
  unfold.hidden = false;
  unfold.addEventListener("click", () => {
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
    unfold.textContent = open ? "Fold all" : "Open all";
  });
  // A printed page shows what is folded, but for tables of many pages.
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("main details:not(.long)")) fold.open = true;
  });
})();
