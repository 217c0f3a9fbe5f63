// The map of a zone: a canvas for each pod, a cell for each host. A cell is filled from below by the host's share.
(() => {
  "use strict";
  const map = document.getElementById("map");
  if (!map) return;
  const line = map.querySelector("[data-line]"), place = map.querySelector("[data-pods]"), texts = map.dataset;
  const LABEL = 16, BETWEEN = 12, EDGES = [1, 25, 50, 70, 85, 95], LONGEST_SIDE = 16000;
  const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const canvases = [];
  let size = 9, gap = 1, colours = {}, width = 0, isHighlighting = false, common = "";

  // --- What is drawn -----------------------------------------------------------------------------------------------
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = { heat: [0, 1, 2, 3, 4, 5, 6].map((one) => of(`heat-${one}`)), ink: of("ink"), soft: of("soft"), bad: of("bad"), card: of("card"), room: of("fill-room"), focus: of("focus") };
  }

  function hostsOf(cluster) {
    const shares = cluster.shares.split(",").map(Number), vms = cluster.vms ? cluster.vms.split(",").map(Number) : [];
    return cluster.hosts.map((name, at) => ({ name, cluster, share: shares[at], state: cluster.states[at], vms: vms[at] || 0, x: 0, y: 0 }));
  }

  // A label leaves out the words with which the names of all clusters begin.
  const labelOf = (name) => (common.length > 3 ? `…${name.slice(common.length)}` : name);
  function sharedBegin(names) {
    const [first = "", ...others] = names;
    let end = others.length ? first.length : 0;
    for (const name of others) while (!name.startsWith(first.slice(0, end))) end -= 1;
    return first.slice(0, end).replace(/[^-_. ]*$/, "");
  }

  // Clusters stand side by side like words of a text, each as its name with its hosts in rows below.
  function layOut(pod) {
    let x = 0, y = 0, lowest = 0;
    const step = size + gap;
    for (const block of pod.blocks) {
      const most = Math.max(1, Math.floor((width + gap) / step));
      const columns = Math.min(most, Math.max(Math.ceil(72 / step), Math.ceil(Math.sqrt(block.hosts.length * 1.6))));
      const rows = Math.ceil(block.hosts.length / columns);
      block.width = columns * step;
      if (x > 0 && x + block.width > width) [x, y] = [0, lowest + BETWEEN];
      [block.x, block.y] = [x, y];
      block.hosts.forEach((host, at) => {
        host.x = x + (at % columns) * step;
        host.y = y + LABEL + Math.floor(at / columns) * step;
      });
      block.bottom = y + LABEL + rows * step;
      lowest = Math.max(lowest, block.bottom);
      x += block.width + BETWEEN;
    }
    pod.height = lowest + 2;
  }

  function draw(pod) {
    const ratio = Math.min(window.devicePixelRatio || 1, LONGEST_SIDE / pod.height);
    pod.canvas.width = Math.round(width * ratio);
    pod.canvas.height = Math.round(pod.height * ratio);
    pod.canvas.style.height = `${pod.height}px`;
    const pen = pod.pen = pod.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "top";
    for (const block of pod.blocks) {
      pen.save();
      pen.beginPath();
      pen.rect(block.x, block.y, block.width, LABEL);
      pen.clip();
      pen.fillStyle = colours.soft;
      pen.fillText(block.label, block.x, block.y + 1);
      pen.restore();
      for (const host of block.hosts) drawCell(pen, host);
    }
    pod.isDrawn = true;
    if (pod.shown) outline(pod);
  }

  function drawCell(pen, { x, y, share, state, vms }) {
    pen.globalAlpha = 1;
    pen.fillStyle = colours.card;
    pen.fillRect(x - 1, y - 1, size + 2, size + 2);
    pen.globalAlpha = isHighlighting && !vms ? 0.4 : 1;
    pen.fillStyle = colours.room;
    pen.fillRect(x, y, size, size);
    const high = Math.max(share > 0 ? 1 : 0, Math.round((size * share) / 100));
    pen.fillStyle = colours.heat[EDGES.filter((edge) => share >= edge).length];
    if (high > 0) pen.fillRect(x, y + size - high, size, high);
    const lines = state === "l" ? [[0, 0, 1, 1], [1, 0, 0, 1]] : state === "m" ? [[0.3, 0.1, 0.3, 0.9], [0.7, 0.1, 0.7, 0.9]]
      : state === "d" ? [[0.1, 0.5, 0.9, 0.5]] : share < 0 ? [[0, 1, 1, 0]] : [];
    if (lines.length) {
      pen.strokeStyle = state === "l" ? colours.bad : colours.ink;
      pen.lineWidth = 1.5;
      pen.beginPath();
      for (const [fromX, fromY, toX, toY] of lines) {
        pen.moveTo(x + fromX * size, y + fromY * size);
        pen.lineTo(x + toX * size, y + toY * size);
      }
      pen.stroke();
    }
    if (vms) {
      pen.fillStyle = colours.card;
      const dot = Math.max(3, size / 3), left = x + (size - dot) / 2, top = y + size / 6;
      pen.fillRect(left - 1, top - 1, dot + 2, dot + 2);
      pen.fillStyle = colours.ink;
      pen.fillRect(left, top, dot, dot);
    }
    pen.globalAlpha = 1;
  }

  function outline(pod) {
    pod.pen.strokeStyle = colours.focus;
    pod.pen.lineWidth = 2;
    pod.pen.strokeRect(pod.shown.x, pod.shown.y, size, size);
  }

  // The neighbours are drawn again, for the outline stands on their edges.
  function show(pod, host) {
    if (pod.shown === host) return;
    for (const other of canvases) {
      const before = other.shown;
      other.shown = null;
      if (before && other.isDrawn) {
        for (const one of other.hosts) {
          if (Math.abs(one.x - before.x) <= size + gap && Math.abs(one.y - before.y) <= size + gap) drawCell(other.pen, one);
        }
      }
    }
    pod.shown = host;
    if (!host) return (line.textContent = line.dataset.hint);
    if (pod.isDrawn) outline(pod);
    tell(host);
  }

  function tell(host) {
    const link = document.createElement("a");
    link.href = addressOf(host);
    link.textContent = host.name;
    const words = [host.cluster.podname, host.cluster.name, host.share < 0 ? texts.unknown : `${texts.by} ${host.share} %`];
    if (host.state !== "u") words.push(texts[host.state]);
    if (isHighlighting) words.push(texts.vms.replace("{count}", host.vms));
    line.replaceChildren(link, ` · ${words.join(" · ")}`);
  }

  const addressOf = (host) => `host?${new URLSearchParams({ clusterid: host.cluster.id, name: host.name })}`;

  // --- What people do ----------------------------------------------------------------------------------------------
  function pointed(pod, event) {
    const box = pod.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const block = pod.blocks.find((one) => x >= one.x && x < one.x + one.width && y >= one.y && y < one.bottom);
    if (!block) return {};
    const host = block.hosts.find((one) => x >= one.x && x < one.x + size + gap && y >= one.y && y < one.y + size + gap);
    return { block, host };
  }

  function go(where, event) {
    if (event.ctrlKey || event.metaKey) window.open(where, "_blank", "noopener");
    else location.assign(where);
  }

  function pressed(pod, event) {
    const host = pod.shown || pod.hosts[0], step = STEPS[event.key];
    if (event.key === "Enter") return go(addressOf(host), event);
    const next = event.key === "Home" ? pod.hosts[0] : event.key === "End" ? pod.hosts.at(-1) : step && neighbour(pod, host, step);
    if (!next) return;
    event.preventDefault();
    show(pod, next);
    const top = pod.canvas.getBoundingClientRect().top + next.y;
    if (top < 80 || top > innerHeight - 40) scrollBy(0, top - innerHeight / 2);
  }

  // The nearest cell in this direction; what lies beside it counts four times as far.
  function neighbour(pod, from, [right, down]) {
    let best = null, least = Infinity;
    for (const one of pod.hosts) {
      const x = one.x - from.x, y = one.y - from.y, along = x * right + y * down;
      const far = along + 4 * Math.abs(right ? y : x);
      if (along > 0 && far < least) [best, least] = [one, far];
    }
    return best;
  }

  function begin(name, clusters) {
    const title = document.createElement("h2"), canvas = document.createElement("canvas");
    title.textContent = name;
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-describedby", "map-keys");
    const blocks = clusters.map((cluster) => ({ cluster, label: labelOf(cluster.name), hosts: hostsOf(cluster) }));
    const pod = { canvas, blocks, hosts: blocks.flatMap((block) => block.hosts), shown: null, isDrawn: false };
    canvas.setAttribute("aria-label", texts.about.replace("{pod}", name).replace("{hosts}", pod.hosts.length));
    canvas.addEventListener("pointermove", (event) => {
      const { block, host } = pointed(pod, event);
      canvas.classList.toggle("points", Boolean(host || block));
      if (host) show(pod, host);
    });
    canvas.addEventListener("click", (event) => {
      const { block, host } = pointed(pod, event);
      if (host && event.pointerType === "touch") show(pod, host);
      else if (host) go(addressOf(host), event);
      else if (block) go(`cluster?${new URLSearchParams({ id: block.cluster.id })}`, event);
    });
    canvas.addEventListener("keydown", (event) => pressed(pod, event));
    canvas.addEventListener("focus", () => pod.shown || show(pod, pod.hosts[0]));
    place.append(title, canvas);
    canvases.push(pod);
    return pod;
  }

  // Pods are drawn when they come near the screen.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const pod = canvases.find((one) => one.canvas === entry.target);
      if (entry.isIntersecting && !pod.isDrawn) draw(pod);
    }
  }, { rootMargin: "600px" });

  function fit() {
    if (!canvases.length || place.clientWidth === width) return;
    width = place.clientWidth;
    for (const pod of canvases) {
      layOut(pod);
      pod.isDrawn = false;
      pod.canvas.style.height = `${pod.height}px`;
      near.unobserve(pod.canvas);
      near.observe(pod.canvas);
    }
  }

  function drawAgain() {
    readColours();
    for (const pod of canvases) if (pod.isDrawn) draw(pod);
  }

  async function read() {
    const answer = await fetch(map.dataset.source, { headers: { Accept: "application/json" } });
    if (!answer.ok || !(answer.headers.get("Content-Type") || "").startsWith("application/json")) throw new Error(String(answer.status));
    const { clusters } = await answer.json(), pods = new Map(), { compare } = new Intl.Collator(undefined, { numeric: true });
    clusters.sort((one, other) => compare(one.podname, other.podname) || compare(one.name, other.name));
    common = sharedBegin(clusters.map((cluster) => cluster.name));
    for (const cluster of clusters) {
      if (!pods.has(cluster.podid)) pods.set(cluster.podid, []);
      pods.get(cluster.podid).push(cluster);
    }
    const count = clusters.reduce((sum, cluster) => sum + cluster.hosts.length, 0);
    isHighlighting = clusters.some((cluster) => cluster.vms);
    size = count <= 600 ? 24 : count <= 4000 || innerWidth < 640 ? 14 : 9;
    gap = size > 12 ? 3 : 2;
    readColours();
    for (const of of pods.values()) begin(of[0].podname, of);
    const hint = matchMedia("(pointer: coarse)").matches ? line.dataset.touchHint : line.dataset.hint;
    line.dataset.hint = `${texts.total.replace("{hosts}", count.toLocaleString()).replace("{clusters}", clusters.length.toLocaleString())} ${hint}`;
    line.textContent = line.dataset.hint;
    fit();
    new ResizeObserver(() => requestAnimationFrame(fit)).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
  }
  read().catch(() => { line.textContent = texts.failed; });
})();
