// The cards on which a model's answers stand, one per picture, and the grid that sorts, filters and saves them.
import { breakable, counted, el, percent, saveFile } from "./elements.js";

export const NONE = "none of these";
const AT_ONCE = 48; // cards; more come when asked for

// What an answer is: "seen", "unseen", "none" where no class will do, "error" where the picture could not be read.
export function kindOf(entry) {
  if (entry.error) return "error";
  if (entry.rejected) return "none";
  return entry.top[0].seen ? "seen" : "unseen";
}

const CHIPS = {
  seen: ["seen", "Training had pictures of this class."],
  unseen: ["unseen", "Known by its description only: training had no picture of this class."],
  none: ["no class", "It looks like nothing that the model has seen, or no class fits."],
  error: ["not read", "The picture could not be read."],
};

export function chip(kind) {
  const [word, meaning] = CHIPS[kind];
  return el("span", { class: `chip ${kind}`, title: meaning }, word);
}

// One picture and what the model says of it; `extra` are elements that stand at the end.
export function answerCard(entry, ...extra) {
  const kind = kindOf(entry);
  const name = kind === "error" ? "not a readable picture" : entry.class;
  return el(
    "article",
    { class: `answer ${kind}`, "aria-label": `${entry.file}: ${name}` },
    entry.picture ? el("div", { class: "answer-picture" }, el("img", { src: entry.picture, alt: `The picture ${entry.file}`, loading: "lazy" })) : null,
    el(
      "div",
      { class: "answer-body" },
      el("h3", { class: "answer-name" }, breakable(name)),
      el("p", { class: "answer-chips" }, chip(kind), truthMark(entry), trainingMark(entry)),
      el("p", { class: "answer-file", title: entry.file }, breakable(entry.file.split("/").slice(-2).join("/"))),
      kind === "error" ? el("p", { class: "answer-error" }, entry.error) : [ranking(entry), reasons(entry)],
      extra,
    ),
  );
}

function truthMark(entry) {
  if (entry.truth === null || entry.truth === undefined) return null;
  const right = entry.truth === String(entry.class);
  return el("span", { class: `chip ${right ? "right" : "wrong"}` }, right ? "✓ right" : `✗ is ${entry.truth}`);
}

const TRAINED = {
  labelled: ["training picture", "The model was trained on this very picture, so its answer says little about new pictures."],
  unlabelled: ["in training, unlabelled", "Training had this very picture without its label."],
};

function trainingMark(entry) {
  const [word, meaning] = TRAINED[entry.in_training] ?? [];
  return word ? el("span", { class: "chip trained", title: meaning }, word) : null;
}

function ranking(entry) {
  const lines = entry.top.map((one) =>
    el(
      "li",
      { class: one.seen ? "seen" : "unseen" },
      el("span", { class: "rank-name" }, breakable(one.class)),
      el("span", { class: "rank-number" }, one.confidence === null ? one.score.toPrecision(3) : percent(one.confidence)),
      one.confidence === null ? null : el("span", { class: "rank-bar", "aria-hidden": "true", share: one.confidence }),
    ),
  );
  const said = entry.rejected ? el("p", { class: "answer-note" }, "Nearest, if it had to be one of them:") : null;
  return [said, el("ol", { class: "ranks", "aria-label": entry.top[0].confidence === null ? "Classes by score" : "Classes by confidence" }, lines)];
}

// Tables write has_bill_shape::cone for people who write programs; a line may end after a hyphen, not after a minus sign.
function readable(text) {
  return text.replaceAll("::", ": ").replaceAll("_", " ").replaceAll(/\(-(?=\d)/g, "(−");
}

function reasons(entry) {
  const why = entry.why;
  if (!why) return null;
  const parts = [...why.for, ...why.against, why.other_attributes, why.other];
  const most = Math.max(1e-12, ...parts.map((one) => Math.abs(one.contribution)));
  const lines = parts.map((one) =>
    el(
      "li",
      { class: one.contribution < 0 ? "against" : "for" },
      el("span", { class: "why-name" }, breakable(readable(one.text))),
      el("span", { class: "rank-bar", "aria-hidden": "true", share: Math.abs(one.contribution) / most }),
    ),
  );
  return el(
    "details",
    { class: "why" },
    el("summary", {}, "Why not ", breakable(why.instead_of), "?"),
    el("ul", { class: "reasons" }, lines, el("li", { class: "sum" }, el("span", { class: "why-name" }, "Together: ", breakable(why.text)))),
  );
}

// The grid ---------------------------------------------------------------------------------------------------------

const ORDERS = {
  given: ["as given", () => 0],
  sure: ["surest first", (a, b) => sureness(b) - sureness(a)],
  unsure: ["least sure first", (a, b) => sureness(a) - sureness(b)],
  class: ["by class", (a, b) => String(a.class).localeCompare(String(b.class)) || sureness(b) - sureness(a)],
  file: ["by file", (a, b) => a.file.localeCompare(b.file, undefined, { numeric: true })],
};

function sureness(entry) {
  return entry.confidence ?? -1;
}

export class AnswerGrid {
  // `extra(entry)` may give more elements for a card.
  constructor(root, { extra = () => [] } = {}) {
    this.entries = [];
    this.extra = extra;
    this.shown = AT_ONCE;
    this.choice = { class: "", kind: "", least: 0, order: "given" };
    this.bar = el("div", { class: "grid-bar", role: "group", "aria-label": "Sort, filter and save" });
    this.count = el("p", { class: "grid-count", role: "status" });
    this.files = el("div", { class: "grid-files" },
      el("button", { type: "button", onclick: () => saveFile("answers.csv", "text/csv", asCsv(this.chosen())) }, "Save CSV"),
      el("button", { type: "button", onclick: () => saveFile("answers.json", "application/json", asJson(this.chosen())) }, "Save JSON"));
    this.cards = el("div", { class: "answers" });
    this.more = el("button", { type: "button", class: "more", onclick: () => this.showMore() });
    root.replaceChildren(this.bar, this.line = el("div", { class: "grid-line" }, this.count, this.files), this.cards, this.more);
    this.set([]);
  }

  set(entries) {
    this.entries = entries;
    this.shown = AT_ONCE;
    const counts = new Map();
    for (const entry of entries) if (!entry.error) counts.set(entry.class, (counts.get(entry.class) ?? 0) + 1);
    if (!counts.has(this.choice.class)) this.choice.class = "";
    this.bar.hidden = this.line.hidden = entries.length < 2;
    this.bar.replaceChildren(...this.controls(counts));
    this.show();
  }

  controls(counts) {
    const classes = [...counts].sort(([a, n], [b, m]) => m - n || String(a).localeCompare(String(b)));
    const kinds = Object.keys(CHIPS).filter((kind) => this.entries.some((entry) => kindOf(entry) === kind));
    const known = this.entries.some((entry) => typeof entry.confidence === "number");
    const least = el("output", { class: "least" }, percent(this.choice.least));
    return [
      this.select("Class", "class", [["", "all classes"], ...classes.map(([name, n]) => [name, `${name} (${n})`])]),
      this.select("Kind", "kind", [["", "seen and unseen"], ...kinds.map((kind) => [kind, CHIPS[kind][0]])]),
      this.select("Order", "order", Object.entries(ORDERS).filter(([key]) => known || !key.includes("sure")).map(([key, [word]]) => [key, word])),
      known
        ? el("label", { class: "control" }, el("span", {}, "Confidence at least ", least), el("input", {
            type: "range", "aria-label": "Confidence at least", min: 0, max: 0.99, step: 0.01, value: this.choice.least,
            oninput: (event) => { this.choice.least = Number(event.target.value); least.textContent = percent(this.choice.least); this.show(); },
          }))
        : null,
    ].filter(Boolean);
  }

  select(word, key, options) {
    const made = el("select", { "aria-label": word, onchange: (event) => { this.choice[key] = event.target.value; this.shown = AT_ONCE; this.show(); } },
      options.map(([value, shown]) => el("option", { value }, shown)));
    made.value = this.choice[key];
    return el("label", { class: "control" }, el("span", {}, word), made);
  }

  chosen() {
    const { class: name, kind, least, order } = this.choice;
    const fits = (entry) => (!name || String(entry.class) === name) && (!kind || kindOf(entry) === kind) && (!least || sureness(entry) >= least);
    return this.entries.filter(fits).sort(ORDERS[order][1]);
  }

  showMore() {
    const first = this.shown;
    this.shown += AT_ONCE;
    this.show();
    this.cards.children[first]?.querySelector("summary, h3")?.focus?.();
  }

  show() {
    const chosen = this.chosen();
    this.cards.replaceChildren(...chosen.slice(0, this.shown).map((entry) => answerCard(entry, this.extra(entry))));
    const left = chosen.length - this.shown;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show ${Math.min(left, AT_ONCE)} more of ${left}`;
    const all = counted(this.entries.length, "picture");
    this.count.textContent = this.entries.length < 2 ? "" : chosen.length === this.entries.length ? all : `${chosen.length.toLocaleString("en")} of ${all}`;
  }
}

// Files ------------------------------------------------------------------------------------------------------------

export function asJson(entries) {
  const said = entries.map(({ picture, source, ...rest }) => rest); // what belongs to the page alone stays there
  return JSON.stringify(said, null, 1) + "\n";
}

export function asCsv(entries) {
  const most = Math.max(1, ...entries.map((entry) => entry.top.length));
  const places = Array.from({ length: most }, (_, place) => place);
  const head = ["file", "class", "seen", "in_training", "confidence", ...places.flatMap((place) => [`class ${place + 1}`, `confidence ${place + 1}`]), ...Object.keys(reasonColumns()), "error"];
  const lines = entries.map((entry) => [
    entry.file, entry.class ?? "", entry.error || entry.rejected ? "" : entry.top[0].seen, entry.in_training ?? "", entry.confidence ?? "",
    ...places.flatMap((place) => [entry.top[place]?.class ?? "", entry.top[place]?.confidence ?? ""]),
    ...Object.values(reasonColumns(entry.why)), entry.error ?? "",
  ]);
  return [head, ...lines].map((line) => line.map(csvCell).join(",")).join("\n") + "\n";
}

// As `firstsight.recognition.explain.Reasons.columns`.
function reasonColumns(why) {
  const side = (found) => (found ?? []).map((one) => one.text).join("; ");
  return { compared: why?.text ?? "", for: side(why?.for), against: side(why?.against), other_attributes: why?.other_attributes.text ?? "", other: why?.other.text ?? "" };
}

// Spreadsheets run what begins with = + - @: an apostrophe precedes it.
function csvCell(value) {
  if (typeof value !== "string") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
