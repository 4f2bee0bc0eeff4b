"use strict";
(() => {
  // A glass brain that turns: orthographic, drawn on a 2-D canvas, so that it needs no graphics card.
  const canvas = document.getElementById("brain"), pen = canvas.getContext("2d");
  const scene = JSON.parse(document.getElementById("brain-data").textContent);
  const said = document.getElementById("brain-said"), slider = document.getElementById("brain-count");
  const hint = said.textContent;
  const VIEWS = { back: [0, 0], left: [Math.PI / 2, 0], right: [-Math.PI / 2, 0], top: [0, Math.PI / 2] };
  const CENTRE = [0, -18, 12], UP = "#d55e00", DOWN = "#0072b2";
  let yaw = 0.9, pitch = 0.35, zoom = 1, lit = -1, drag = null, asked = false, spots = [];

  const largest = Math.max(...scene.edges.map((edge) => Math.abs(edge[2])), 1e-12);
  const normals = scene.faces.map(([a, b, c]) => {
    const [p, q, r] = [a, b, c].map((k) => scene.vertices[k]);
    const u = q.map((v, k) => v - p[k]), w = r.map((v, k) => v - p[k]);
    const n = [u[1] * w[2] - u[2] * w[1], u[2] * w[0] - u[0] * w[2], u[0] * w[1] - u[1] * w[0]];
    const length = Math.hypot(...n) || 1;
    return n.map((v) => v / length);
  });

  function turned([x, y, z]) {
    const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    const across = x * cy - y * sy, along = x * sy + y * cy;
    return [across, along * sp + z * cp, z * sp - along * cp];  // right, up, towards the reader
  }

  function draw() {
    asked = false;
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const scale = zoom * Math.min(width / 185, height / 182);
    const place = (point) => {
      const [right, up, near] = turned(point.map((v, k) => v - CENTRE[k]));
      return [width / 2 + scale * right, height / 2 - scale * up, near];
    };
    const ink = getComputedStyle(canvas).color;

    // The surface shows where it turns away from the reader: an outline with folds, open in the middle.
    const corners = scene.vertices.map(place);
    pen.fillStyle = "#8a8f98";
    scene.faces.forEach((face, k) => {
      const facing = turned(normals[k])[2];
      if (facing < 0) return;
      pen.globalAlpha = 0.05 + 0.5 * (1 - facing) ** 2.5;
      pen.beginPath();
      for (const corner of face) pen.lineTo(corners[corner][0], corners[corner][1]);
      pen.fill();
    });

    const edges = scene.edges.slice(0, Number(slider.value));
    const shown = new Set(edges.flatMap((edge) => [edge[0], edge[1]]));
    spots = scene.nodes.map((node, k) => ({ k, node, at: place(node.mni) })).filter(({ k }) => shown.has(k));
    const where = new Map(spots.map((spot) => [spot.k, spot.at]));
    const depth = (near) => 0.35 + 0.65 * Math.min(1, Math.max(0, (near + 80) / 160));
    const sorted = edges.map((edge) => ({ edge, ends: [where.get(edge[0]), where.get(edge[1])] }))
      .sort((a, b) => a.ends[0][2] + a.ends[1][2] - b.ends[0][2] - b.ends[1][2]);
    for (const { edge, ends: [a, b] } of sorted) {
      const of = lit < 0 || edge[0] === lit || edge[1] === lit;
      pen.globalAlpha = (of ? 0.95 : 0.15) * depth((a[2] + b[2]) / 2);
      pen.strokeStyle = edge[2] > 0 ? UP : DOWN;
      pen.lineWidth = 1 + 3 * Math.abs(edge[2]) / largest;
      pen.beginPath();
      pen.moveTo(a[0], a[1]);
      pen.lineTo(b[0], b[1]);
      pen.stroke();
    }
    spots.sort((a, b) => a.at[2] - b.at[2]);
    pen.fillStyle = ink;
    for (const { k, at } of spots) {
      pen.globalAlpha = k === lit ? 1 : depth(at[2]);
      pen.beginPath();
      pen.arc(at[0], at[1], k === lit ? 6 : 3.5, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;
    const chosen = spots.find((spot) => spot.k === lit);
    if (chosen) label(chosen.node.name, chosen.at, ink, width);
  }

  function label(text, [x, y], ink, width) {
    pen.font = "600 14px system-ui, sans-serif";
    const wide = pen.measureText(text).width + 14, left = Math.min(Math.max(x + 10, 4), width - wide - 4);
    pen.globalAlpha = 0.9;
    pen.fillStyle = getComputedStyle(document.body).backgroundColor;
    pen.fillRect(left, y - 32, wide, 24);
    pen.globalAlpha = 1;
    pen.fillStyle = ink;
    pen.fillText(text, left + 7, y - 15);
  }

  function later() {
    if (!asked) { asked = true; requestAnimationFrame(draw); }
  }

  function light(k) {
    if (k === lit) return;
    lit = k;
    if (k < 0) { said.textContent = hint; later(); return; }
    const to = scene.edges.slice(0, Number(slider.value)).filter((edge) => edge[0] === k || edge[1] === k)
      .map((edge) => `${scene.nodes[edge[0] === k ? edge[1] : edge[0]].name} (${edge[2] > 0 ? "+" : "−"}${Math.abs(edge[2]).toPrecision(2)})`);
    const node = scene.nodes[k];
    said.textContent = `${node.name}${node.part ? ", " + node.part : ""}, MNI ${node.mni.map(Math.round).join(", ")}: to ${to.join("; ")}`;
    later();
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, reach = 14;
    for (const { k, at } of spots) {
      const distance = Math.hypot(at[0] - x, at[1] - y);
      if (distance < reach) [best, reach] = [k, distance];
    }
    return best;
  }

  const tilt = (by) => { pitch = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, pitch + by)); };
  canvas.addEventListener("pointerdown", (event) => {
    drag = [event.clientX, event.clientY];
    canvas.setPointerCapture(event.pointerId);
    light(nearest(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) { light(nearest(event)); return; }
    yaw += (event.clientX - drag[0]) / 120;
    tilt((event.clientY - drag[1]) / 120);
    drag = [event.clientX, event.clientY];
    later();
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { if (!drag) light(-1); });
  canvas.addEventListener("keydown", (event) => {
    const step = 0.15, order = spots.map((spot) => spot.k).sort((a, b) => a - b);
    const beside = (by) => light(order[(order.indexOf(lit) + by + order.length) % order.length]);
    const keys = {
      ArrowLeft: () => { yaw -= step; }, ArrowRight: () => { yaw += step; },
      ArrowUp: () => tilt(-step), ArrowDown: () => tilt(step),
      "+": () => { zoom = Math.min(3, zoom * 1.15); }, "-": () => { zoom = Math.max(0.5, zoom / 1.15); },
      n: () => beside(1), p: () => beside(-1), Escape: () => light(-1),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
    later();
  });
  for (const button of document.querySelectorAll("[data-brain-view]")) {
    button.addEventListener("click", () => { [yaw, pitch] = VIEWS[button.dataset.brainView]; zoom = 1; later(); });
  }
  slider.addEventListener("input", () => {
    document.getElementById("brain-number").textContent = slider.value;
    light(-1);
    later();
  });
  new ResizeObserver(later).observe(canvas);
  new MutationObserver(later).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
  draw();
  canvas.dataset.drawn = "true";
})();
