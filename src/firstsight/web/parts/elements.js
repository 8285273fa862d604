// Elements made from words and numbers. Whatever comes from outside becomes text or an attribute, never markup.

export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "share") made.style.setProperty("--share", String(value)); // no style attribute: the policy forbids it
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

// A name whose lines may break after _ . - and / as well as after spaces.
export function breakable(name) {
  return String(name).split(/(?<=[_.\/-])/).flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part]));
}

export function percent(share) {
  if (share === null || share === undefined) return "–";
  const shown = 100 * share;
  if (shown > 99.5 && share < 1) return "> 99 %";
  return shown > 0 && shown < 1 ? "< 1 %" : `${Math.round(shown)} %`;
}

export function counted(n, word) {
  return `${n.toLocaleString("en")} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
}

export function saveFile(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
