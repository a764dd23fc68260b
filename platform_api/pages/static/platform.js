// Keys: j and k move over the items of a list, Enter opens one; links name their own key in data-key.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const link = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (link) return link.click();
  const items = [...document.querySelectorAll("[data-item]")];
  const now = items.findIndex((item) => item.classList.contains("current"));
  if (event.key === "j" || event.key === "k") {
    const next = items[Math.min(items.length - 1, Math.max(0, now + (event.key === "j" ? 1 : -1)))];
    items.forEach((item) => item.classList.toggle("current", item === next));
    next?.scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter" && now >= 0 && document.activeElement === document.body) {
    (items[now].matches("a") ? items[now] : items[now].querySelector("a"))?.click();
  }
});
