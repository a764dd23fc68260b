// Keys: j and k move over the items of a list, Enter opens one; links name their own key in data-key.
const TYPING = "input:not([type=radio]):not([type=checkbox]), select, textarea";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches(TYPING)) return;
  const choice = document.querySelector(`.current [data-choice="${CSS.escape(event.key)}"]`);
  if (choice) {
    choice.focus();
    return choice.click();
  }
  const link = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (link) return link.click();
  const items = [...document.querySelectorAll("[data-item]")];
  const now = items.findIndex((item) => item.classList.contains("current"));
  if (event.key === "j" || event.key === "k") {
    const next = items[Math.min(items.length - 1, Math.max(0, now + (event.key === "j" ? 1 : -1)))];
    items.forEach((item) => item.classList.toggle("current", item === next));
    next?.scrollIntoView({ block: "nearest" });
    focusItem(next);
  } else if (event.key === "Enter" && now >= 0 && document.activeElement === document.body) {
    (items[now].matches("a") ? items[now] : items[now].querySelector("a"))?.click();
  }
});

// The focus goes with the current item, so that it is read aloud and the tab key goes on from there.
function focusItem(item) {
  if (!item) return;
  const target = item.matches("a") ? item : item.querySelector("a[href], input[type=radio]") ?? item;
  if (target === item && !item.matches("a")) item.tabIndex = -1;
  target.focus({ preventScroll: true });
}

// Rows that are ticked to be compared: so many at least and at most, and x ticks the current one.
const choosing = document.querySelector("form[data-choose]");
if (choosing) {
  const [least, most] = choosing.dataset.choose.split(" ").map(Number);
  const told = choosing.querySelector("output"), button = choosing.querySelector("button"), begin = told.textContent;
  const count = () => {
    const chosen = [...choosing.elements].filter((box) => box.checked).length;
    button.disabled = chosen < least || chosen > most;
    told.textContent = !chosen ? begin : chosen > most ? `${chosen} ticked; ${most} at most` : `${chosen} ticked`;
  };
  document.addEventListener("change", count);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "x" || event.ctrlKey || event.metaKey || event.target.matches(TYPING)) return;
    document.querySelector("tr.current input[type=checkbox]")?.click();
  });
  addEventListener("pageshow", count);
  count();
}

// Content that comes anew keeps the focus where it was.
let focusedLink = null;
document.addEventListener("htmx:beforeSwap", () => (focusedLink = document.activeElement?.getAttribute("href")));
document.addEventListener("htmx:afterSwap", () => {
  if (!focusedLink || document.activeElement !== document.body) return;
  document.querySelector(`main a[href="${CSS.escape(focusedLink)}"]`)?.focus({ preventScroll: true });
});

// On a small screen each row of a table stands as a card, in which a cell carries the name of its column.
function nameCells() {
  for (const table of document.querySelectorAll(".table > table:not(.group, .audit-table)")) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    const names = heads.map((head) => (head.querySelector(".hidden") ? "" : head.textContent.trim()));
    for (const cell of [...table.tBodies].flatMap((body) => [...body.rows]).flatMap((row) => [...row.cells])) {
      if (!cell.textContent.trim() && !cell.children.length) cell.replaceChildren();
      else if (cell.colSpan === 1 && names[cell.cellIndex]) cell.dataset.name = names[cell.cellIndex];
    }
    table.classList.add("cards");
  }
}

// Times come in UTC and are shown in the reader's zone; those of lists as how long ago they were.
const UNITS = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat("en");
function sinceThen(at) {
  const seconds = (at - Date.now()) / 1000;
  const [unit, length] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? [];
  return unit ? relative.format(Math.trunc(seconds / length), unit) : "just now";
}
function showTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!time.title) {
      const withSeconds = time.textContent.trim().split(":").length > 2;
      time.title = `${at.toLocaleString("en", { dateStyle: "full", timeStyle: "long" })}, ${time.dateTime}`;
      time.textContent = at.toLocaleString("sv", { dateStyle: "short", timeStyle: withSeconds ? "medium" : "short" });
    }
    if (time.matches(".ago")) time.textContent = sinceThen(at);
  }
}
setInterval(showTimes, 30_000);
const zone = document.querySelector("[data-zone]");
if (zone) zone.textContent = `Times: ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;

// A table of which a part is out of sight has a shade at that side.
function markScrolling() {
  for (const one of document.querySelectorAll(".table, .scroll")) one.classList.toggle("scrolls", one.scrollWidth > one.clientWidth + 1);
}
addEventListener("resize", markScrolling);
addEventListener("load", markScrolling);

// What a page does with its content, and with content that comes later.
function prepareContent() {
  nameCells();
  showTimes();
  markScrolling();
}
prepareContent();
document.addEventListener("htmx:afterSwap", prepareContent);

// A page that follows a run says so while the service does not answer.
document.addEventListener("htmx:afterRequest", (event) => {
  document.getElementById("unreachable").hidden = event.detail.successful;
});

// A long page folds on a phone, but for its first part and the part that its address names.
if (matchMedia("(max-width: 700px)").matches) {
  const named = location.hash && document.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`);
  // Filters give their place to what they filter, unless they are in use.
  document.querySelectorAll("details.narrow-only:not([data-used])").forEach((filters) => (filters.open = false));
  [...document.querySelectorAll("details.fold")].slice(1).forEach((fold) => (fold.open = Boolean(named) && fold.contains(named)));
}

// A log is read from its end.
for (const log of document.querySelectorAll("[data-end]")) log.scrollTop = log.scrollHeight;

// A log follows its stage: lines come as server-sent events, and the view stays at the end unless it was moved.
for (const log of document.querySelectorAll("[data-follow]")) {
  const events = new EventSource(log.dataset.follow);
  events.addEventListener("lines", (event) => {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    log.append(JSON.parse(event.data));
    if (atEnd) log.scrollTop = log.scrollHeight;
  });
  events.addEventListener("end", () => events.close());
}

// A file goes to the API as it is, under a key of its own; the form says what was stored, or which line is wrong.
for (const form of document.querySelectorAll("form[data-upload]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const told = form.querySelector("output"), button = form.querySelector("button");
    button.disabled = true;
    const key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    try {
      const headers = { "Content-Type": "text/csv", "Idempotency-Key": key };
      const answer = await fetch(form.dataset.upload, { method: "POST", headers, body: form.elements.file.files[0] });
      const body = await answer.json();
      told.textContent = answer.ok ? `${body.stored} rows are stored; load the page anew to see them.` : body.detail;
    } catch {
      told.textContent = "The service does not answer, so nothing is stored for sure; send the file again.";
    }
    told.classList.toggle("bad", !told.textContent.includes("are stored"));
    button.disabled = false;
  });
}

// A page that the browser kept, as it stood before its form was sent, is fetched anew: each form is sent under a new key.
addEventListener("pageshow", (event) => event.persisted && document.querySelector("form[method=post]") && location.reload());

// The editor of a recipe grows with its lines; the mark and the words of a mistake stay at their line until it is changed.
const recipe = document.querySelector("textarea[name=recipe]");
if (recipe) {
  const editor = recipe.closest(".editor"), margin = editor.querySelector(".margin");
  const notes = () => [...editor.querySelectorAll(".note")];
  const showLine = (line) => (editor.scrollTop = margin.children[line - 1].offsetTop - margin.offsetTop - editor.clientHeight / 3);
  let before = recipe.value.split("\n");
  recipe.addEventListener("input", () => {
    const now = recipe.value.split("\n"), least = Math.min(before.length, now.length);
    let start = 0, end = 0;
    while (start < least && before[start] === now[start]) start++;
    while (end < least - start && before[before.length - 1 - end] === now[now.length - 1 - end]) end++;
    for (const note of notes()) {
      const at = Number(note.dataset.of) - 1;
      if (at < start) continue;
      if (at < before.length - end) note.remove();
      else note.style.setProperty("--line", (note.dataset.of = at + 1 + now.length - before.length));
    }
    before = now;
    recipe.rows = Math.max(now.length, 12);
    const wrong = new Set(notes().map((note) => Number(note.dataset.of)));
    margin.replaceChildren(...now.map((_, at) => {
      const item = document.createElement("li");
      item.textContent = at + 1;
      item.classList.toggle("wrong", wrong.has(at + 1));
      return item;
    }));
  });
  recipe.addEventListener("scroll", () => notes().forEach((note) => (note.style.translate = `${-recipe.scrollLeft}px`)));
  if (notes().length) showLine(Math.min(...notes().map((note) => note.dataset.of)));
  // A mistake leads to its line.
  document.addEventListener("click", (event) => {
    const line = Number(event.target.dataset?.line);
    if (!line) return;
    event.preventDefault();
    const begin = recipe.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = recipe.value.indexOf("\n", begin);
    recipe.focus();
    recipe.setSelectionRange(begin, end < 0 ? recipe.value.length : end);
    showLine(line);
  });
}
// The control of new content that stands for one of the content before.
function sameControl(content, before) {
  if (before.id) return content.querySelector(`#${CSS.escape(before.id)}`);
  const address = before.getAttribute("href");
  return address && content.querySelector(`a[href="${CSS.escape(address)}"]`);
}
// A part of a page that follows a run: with each event of the run it is fetched anew, and the current item stays.
const live = document.querySelector("[data-events]");
if (live) {
  const events = new EventSource(live.dataset.events);
  let isFirst = true;
  events.addEventListener("run", async (event) => {
    const isGoing = ["going", "starting", "queued"].includes(JSON.parse(event.data).state);
    if (!isGoing) events.close();
    // The first event tells what the page shows, unless the run has ended since.
    if (isFirst && isGoing) return (isFirst = false);
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(live.id);
    const now = [...live.querySelectorAll("[data-item]")].findIndex((item) => item.classList.contains("current"));
    const focused = live.contains(document.activeElement) ? document.activeElement : null;
    live.replaceChildren(...fresh.childNodes);
    prepareContent();
    if (focused) sameControl(live, focused)?.focus({ preventScroll: true });
    const current = live.querySelectorAll("[data-item]")[now];
    current?.classList.add("current");
    if (document.activeElement === document.body) focusItem(current);
  });
}
// An image that is not there leaves no frame behind.
const hideBroken = (image) => image.complete && !image.naturalWidth && image.matches(".sample, .thumb") && (image.hidden = true);
document.addEventListener("error", (event) => event.target instanceof HTMLImageElement && hideBroken(event.target), true);
document.querySelectorAll("img").forEach((image) => image.loading !== "lazy" && hideBroken(image));
