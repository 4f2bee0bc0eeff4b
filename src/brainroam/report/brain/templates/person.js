"use strict";
(() => {
  const { pathways, sites, said } = JSON.parse(document.getElementById("person-data").textContent);
  const select = document.getElementById("person"), body = document.getElementById("person-table").tBodies[0];
  const people = [];
  for (const [site, members] of sites) {
    const group = document.createElement("optgroup");
    group.label = site;
    for (const member of members) {
      group.append(new Option(member.subject, String(people.length)));
      people.push({ site, ...member });
    }
    select.append(group);
  }
  function bar(kind, share) {
    const whole = document.createElement("span"), part = document.createElement("i");
    whole.className = kind === "gate" ? "bar whole" : "bar";
    part.className = kind;
    part.style.width = `${(100 * Math.min(1, share)).toFixed(1)}%`;
    whole.append(part);
    return whole;
  }
  function cell(tag, text, extra) {
    const made = document.createElement(tag);
    if (tag === "th") made.scope = "row"; else made.className = "number";
    made.append(text);
    if (extra) made.append(" ", extra);
    return made;
  }
  function show() {
    const person = people[Number(select.value)];
    const known = person.known ? `, labelled ${person.known}` : "";
    document.getElementById("person-said").textContent =
      `${person.subject} of ${person.site}${known}: ${said} ${person.said.toFixed(2)}.`;
    const largest = Math.max(...person.rows.map((row) => Math.abs(row[2])), 1e-12);
    body.replaceChildren(...person.rows.map(([pathway, gate, contribution]) => {
      const line = document.createElement("tr");
      line.append(
        cell("th", pathways[pathway]),
        ...(gate === null ? [] : [cell("td", gate.toFixed(2), bar("gate", gate))]),
        cell("td", (contribution > 0 ? "+" : "") + contribution.toFixed(3),
          bar(contribution > 0 ? "up" : "down", Math.abs(contribution) / largest / 2)),
      );
      return line;
    }));
  }
  select.addEventListener("change", show);
  show();
})();
