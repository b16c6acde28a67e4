// Copyright The cacheinf_ros maintainers. SPDX-License-Identifier: Apache-2.0
// Shows a run frame by frame: pictures with answers drawn in, and charts with one cursor. See player.py for the data.
"use strict";
(() => {
  const run = JSON.parse(document.getElementById("run").textContent);
  const player = document.getElementById("player");
  const find = (role) => player.querySelector(`[data-role=${role}]`);
  const screen = find("screen"), pen = screen.getContext("2d"), slider = find("slider"), play = find("play");
  const way = find("way"), reused = find("reused"), charts = find("charts"), caption = find("caption");
  const COLOURS = ["#0969da", "#59636e", "#d1242f"];
  const images = new Map();
  let frame = 0, timer = 0;

  function element(name, attributes = {}, text = "") {
    const made = name === "svg" || name === "path"
      ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  // The latest frame with a picture: long recordings have pictures of some frames only.
  function pictureOf(index) {
    let low = 0, high = run.shown.length - 1;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (run.shown[middle] <= index) low = middle; else high = middle - 1;
    }
    return low;
  }

  function image(address) {
    if (!images.has(address)) {
      const made = new Image();
      made.onload = () => draw();
      made.src = address;
      images.set(address, made);
    }
    return images.get(address);
  }

  function colour(label) {
    return `hsl(${Math.round(360 * ((0.618 * label) % 1))}, 90%, 60%)`;
  }

  function write(text, x, y, fill) {
    pen.font = "600 13px system-ui, sans-serif";
    pen.lineWidth = 3;
    pen.strokeStyle = "rgba(0, 0, 0, .8)";
    pen.strokeText(text, x, y);
    pen.fillStyle = fill;
    pen.fillText(text, x, y);
  }

  function drawBoxes(boxes, scale) {
    for (const [x, y, width, height, label, points] of boxes) {
      pen.strokeStyle = colour(label);
      pen.lineWidth = 2;
      pen.strokeRect(x * scale, y * scale, width * scale, height * scale);
      write(run.labels[label] ?? String(label), x * scale + 1, Math.max(13, y * scale - 4), colour(label));
      pen.fillStyle = "#fff";
      for (const [left, top] of points) pen.fillRect(left * scale - 2, top * scale - 2, 4, 4);
    }
  }

  function drawReused(map, scale) {
    const bytes = atob(map.bits), side = map.block * scale;
    pen.fillStyle = "rgba(0, 160, 80, .3)";
    for (let block = 0; block < map.rows * map.columns; block++) {
      if ((bytes.charCodeAt(block >> 3) >> (7 - (block & 7))) & 1) {
        pen.fillRect((block % map.columns) * side, Math.floor(block / map.columns) * side, side, side);
      }
    }
  }

  function draw() {
    const number = pictureOf(frame), picture = image(run.stills[number]);
    if (!picture.complete) return;
    pen.drawImage(picture, 0, 0, screen.width, screen.height);
    const scale = screen.width / run.size[0], map = run.reused[number];
    if (reused.checked && map) drawReused(map, scale);
    const answer = run.ways.length ? run.ways[Number(way.value)].frames[number] : null;
    if (Array.isArray(answer)) drawBoxes(answer, scale);
    else if (typeof answer === "string" && answer.startsWith("data:")) {
      const layer = image(answer);
      if (layer.complete) pen.drawImage(layer, 0, 0, screen.width / run.pictures, screen.height);
    } else if (typeof answer === "string") write(answer, 8, 20, "#fff");
  }

  function show(index) {
    frame = Math.min(run.count - 1, Math.max(0, index));
    slider.value = frame;
    const mode = run.modes[frame] ? `, ${run.modes[frame]}` : "";
    const other = run.shown[pictureOf(frame)];
    caption.textContent = `frame ${frame} of ${run.count}${mode}` + (other === frame ? "" : ` (picture: frame ${other})`);
    for (const update of updates) update();
    draw();
  }

  function path(values, low, high) {
    let line = "", gap = true;
    values.forEach((value, index) => {
      if (value === null) { gap = true; return; }
      const y = 100 * (1 - (Math.min(value, high) - low) / (high - low));
      line += `${gap ? "M" : "L"}${index + 0.5} ${y.toFixed(2)}`;
      if (gap) line += "h0.01";  // a point of its own can be seen
      gap = false;
    });
    return line;
  }

  const updates = run.charts.map((chart) => {
    const box = element("div", {class: "chart"}), head = element("div", {class: "head"});
    const plot = element("div", {class: "plot"}), cursor = element("div", {class: "cursor"});
    const svg = element("svg", {viewBox: `0 0 ${run.count} 100`, preserveAspectRatio: "none", "aria-hidden": "true"});
    const zero = 100 * (1 + chart.low / (chart.high - chart.low));
    svg.append(element("path", {d: `M0 ${zero}H${run.count}`, stroke: "#d1d9e0"}));
    head.append(element("b", {}, chart.title));
    const readings = chart.lines.map((line, number) => {
      svg.append(element("path", {d: path(line.values, chart.low, chart.high), stroke: COLOURS[number % 3]}));
      const reading = element("span", {style: `color: ${COLOURS[number % 3]}`});
      head.append(reading);
      return () => {
        const value = line.values[frame];
        const shown = value === null ? "–" : chart.unit ? value.toFixed(1) : value.toFixed(3);
        reading.textContent = `${line.name} ${shown}${value === null ? "" : ` ${chart.unit}`}`;
      };
    });
    plot.append(svg, cursor);
    box.append(head, plot);
    charts.append(box);
    const seek = (event) => {
      const place = plot.getBoundingClientRect();
      show(Math.floor(((event.clientX - place.left) / place.width) * run.count));
    };
    plot.addEventListener("pointerdown", (event) => { stop(); plot.setPointerCapture(event.pointerId); seek(event); });
    plot.addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
    return () => {
      cursor.style.left = `${(100 * (frame + 0.5)) / run.count}%`;
      for (const read of readings) read();
    };
  });

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }

  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    play.textContent = "Pause";
    timer = setInterval(() => show(frame + 1 < run.count ? frame + 1 : 0), 100);
  });
  slider.max = run.count - 1;
  slider.addEventListener("input", () => { stop(); show(Number(slider.value)); });
  run.ways.forEach((each, number) => way.append(element("option", {value: number}, each.name)));
  way.addEventListener("change", draw);
  reused.addEventListener("change", draw);
  if (!run.ways.length) way.parentElement.hidden = true;
  if (!run.reused.some((map) => map)) reused.parentElement.hidden = true;
  find("worst").hidden = !run.worst.length;
  find("worst").addEventListener("click", () => { stop(); show(run.worst.find((each) => each > frame) ?? run.worst[0]); });
  screen.width = 640;
  screen.height = Math.round((640 * run.size[1]) / run.size[0]);
  player.hidden = false;
  const asked = /^#frame=(\d+)$/.exec(location.hash);
  show(asked ? Number(asked[1]) : 0);
})();
