
// The advantage viewer: two maps of one rollout's advantage over two of its rewards, read together.
(function () {
  const viewer = document.getElementById("viewer");
  if (!viewer) return;
  const CELLS = 60;
  const MOST_LINES = 9;
  const { rewards: names, weights, groups } = JSON.parse(document.getElementById("viewer-data").textContent);
  const part = (name) => document.getElementById(`viewer-${name}`);
  const maps = [...viewer.querySelectorAll(".map")].map((map) => ({
    method: map.dataset.method,
    title: map.querySelector(".chart-title").textContent,
    value: map.querySelector(".map-value"),
    frame: map.querySelector(".frame"),
    canvas: map.querySelector("canvas"),
    lines: map.querySelector("svg"),
    over: map.querySelector(".over"),
    up: map.querySelector(".map-up"),
    across: map.querySelector(".map-across"),
  }));
  const state = { group: 0, rollout: 0, pair: [0, 1], at: [0, 0] };

  const inRange = (value) => Math.min(1, Math.max(0, value));
  const short = (value) => value.toFixed(2);
  const signed = (value) => (value < -0.005 ? "\u2212" : "+") + Math.abs(value).toFixed(2);
  const capital = (word) => word[0].toUpperCase() + word.slice(1);
  const realPlace = () => state.pair.map((reward) => groups[state.group].rewards[state.rollout][reward]);

  function chooseGroup(number) {
    state.group = number;
    const { rewards } = groups[number];
    const apart = rewards.map((row, at) => {
      if (!row) return -1;
      const both = advantagesAt(groups[number], weights, at, [0, 1], row);
      return Math.abs(both.grpo - both.decoupled);
    });
    part("rollout").replaceChildren(
      ...rewards.map((row, at) => {
        const told = row ? names.map((name, k) => `${name} ${short(row[k])}`).join(", ") : "not judged";
        const option = new Option(`${at + 1}: ${told}`, at);
        option.disabled = !row;
        return option;
      }),
    );
    document.querySelectorAll("details.group").forEach((one) => (one.hidden = one.id !== `group-${number}`));
    document.getElementById(`group-${number}`).open = true;
    chooseRollout(apart.indexOf(Math.max(...apart)));
  }

  function chooseRollout(number) {
    state.rollout = number;
    part("rollout").value = number;
    const said = document.querySelectorAll(`#group-${state.group} .responses li`)[number].textContent;
    part("response").textContent = `\u201c${said}\u201d`;
    back();
    draw();
  }

  function back() {
    moveTo(realPlace());
  }

  function draw() {
    const swept = sweptAdvantages(groups[state.group], weights, state.rollout, state.pair, CELLS);
    const all = [...swept.grpo, ...swept.decoupled];
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const reach = Math.max(-least, most, 1e-9);
    const step = [0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10].find((size) => (most - least) / size <= MOST_LINES) || 20;
    part("least").textContent = signed(-reach);
    part("most").textContent = signed(reach);
    const [first, second] = state.pair.map((reward) => names[reward]);
    for (const map of maps) {
      map.up.textContent = `\u2191 ${second}`;
      map.across.textContent = `${first} \u2192`;
      map.frame.setAttribute("aria-label", `${map.title} advantage over ${first} and ${second}`);
      paint(map.canvas, swept[map.method], reach);
      drawLines(map, swept[map.method], least, most, step);
    }
  }

  function paint(canvas, values, reach) {
    const [down, level, up] = ["--down", "--level", "--up"].map(colourOf);
    canvas.width = canvas.height = CELLS;
    const brush = canvas.getContext("2d");
    const image = brush.createImageData(CELLS, CELLS);
    const side = CELLS + 1;
    for (let row = 0; row < CELLS; row++) {
      for (let column = 0; column < CELLS; column++) {
        const at = (CELLS - 1 - row) * side + column;
        const value = (values[at] + values[at + 1] + values[at + side] + values[at + side + 1]) / 4;
        const share = Math.min(1, Math.abs(value) / reach);
        const end = value < 0 ? down : up;
        const pixel = 4 * (row * CELLS + column);
        for (let k = 0; k < 3; k++) image.data[pixel + k] = level[k] + share * (end[k] - level[k]);
        image.data[pixel + 3] = 255;
      }
    }
    brush.putImageData(image, 0, 0);
  }

  function colourOf(name) {
    const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    brush.fillStyle = getComputedStyle(viewer).getPropertyValue(name).trim();
    brush.fillRect(0, 0, 1, 1);
    return brush.getImageData(0, 0, 1, 1).data;
  }

  function drawLines(map, values, least, most, step) {
    map.lines.replaceChildren();
    map.over.replaceChildren();
    let labelled = -1;
    for (let number = Math.ceil(least / step); number * step <= most; number++) {
      // A level exactly on the grid's values would be crossed at corners, twice or not at all.
      const line = isoLine(values, CELLS, number * step + 1e-9);
      if (!line) continue;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", line);
      path.setAttribute("class", number === 0 ? "iso zero" : "iso");
      map.lines.append(path);
      const at = diagonalCrossing(values, number * step);
      if (at === null || at < labelled + 7 || at < 4 || at > 96) continue;
      labelled = at;
      map.over.append(placed("iso-label", at, at, number === 0 ? "0" : signed(number * step)));
    }
    groups[state.group].rewards.forEach((row, rollout) => {
      if (!row) return;
      const [x, y] = state.pair.map((reward) => 100 * row[reward]);
      const real = rollout === state.rollout;
      map.over.append(placed(real ? "spot real" : "spot other", x, y, "", `rollout ${rollout + 1}`));
    });
  }

  /** Where the values pass a level between (0, 0) and (1, 1), in percent. */
  function diagonalCrossing(values, level) {
    const at = (place) => values[place * (CELLS + 2)] - level;
    for (let place = 0; place < CELLS; place++) {
      if (at(place) < 0 !== at(place + 1) < 0) {
        return (100 * (place + at(place) / (at(place) - at(place + 1)))) / CELLS;
      }
    }
    return null;
  }

  function placed(kind, x, y, text, title) {
    const mark = document.createElement("span");
    mark.className = kind;
    mark.style.left = `${x}%`;
    mark.style.top = `${100 - y}%`;
    mark.textContent = text;
    if (title) mark.title = title;
    return mark;
  }

  function moveTo(at) {
    state.at = at.map(inRange);
    const [first, second] = state.pair.map((reward) => names[reward]);
    const group = groups[state.group];
    const here = advantagesAt(group, weights, state.rollout, state.pair, state.at);
    const real = advantagesAt(group, weights, state.rollout, state.pair, realPlace());
    for (const map of maps) {
      map.value.textContent = signed(here[map.method]);
      map.frame.style.setProperty("--x", `${100 * state.at[0]}%`);
      map.frame.style.setProperty("--y", `${100 - 100 * state.at[1]}%`);
    }
    ["x", "y"].forEach((axis, place) => {
      part(axis).value = state.at[place];
      part(`${axis}-name`).textContent = `${capital([first, second][place])} ${short(state.at[place])}`;
    });
    const rest = names.map((name, k) => [name, k]).find(([, k]) => !state.pair.includes(k));
    part("says").textContent =
      `Rollout ${state.rollout + 1} with ${first} ${short(state.at[0])} and ${second} ${short(state.at[1])}: ` +
      `GRPO ${signed(here.grpo)}, c-GDPO ${signed(here.decoupled)}. ` +
      `As it was, with ${realPlace().map(short).join(" and ")}: GRPO ${signed(real.grpo)}, ` +
      `c-GDPO ${signed(real.decoupled)}. Its ${rest[0]} stays ${short(group.rewards[state.rollout][rest[1]])}.`;
  }

  function pointed(frame, event) {
    const box = frame.getBoundingClientRect();
    moveTo([(event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height]);
  }

  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] };
  function pressed(event) {
    const move = ARROWS[event.key];
    if (!move && event.key !== "Home") return;
    event.preventDefault();
    const size = event.shiftKey ? 0.1 : 0.01;
    if (move) moveTo(state.at.map((value, place) => value + size * move[place]));
    else back();
  }

  for (const { frame } of maps) {
    frame.addEventListener("pointermove", (event) => pointed(frame, event));
    frame.addEventListener("pointerdown", (event) => pointed(frame, event));
    frame.addEventListener("keydown", pressed);
  }
  part("group").addEventListener("change", (event) => chooseGroup(Number(event.target.value)));
  part("rollout").addEventListener("change", (event) => chooseRollout(Number(event.target.value)));
  part("pair").addEventListener("change", (event) => {
    state.pair = event.target.value.split(",").map(Number);
    back();
    draw();
  });
  part("x").addEventListener("input", (event) => moveTo([Number(event.target.value), state.at[1]]));
  part("y").addEventListener("input", (event) => moveTo([state.at[0], Number(event.target.value)]));
  part("back").addEventListener("click", back);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  viewer.hidden = false;
  // A browser keeps choices over a reload.
  ["group", "pair"].forEach((name) => (part(name).selectedIndex = 0));
  chooseGroup(0);
})();
