// A new class by its attributes, by a class like it, or by a sentence; undone as easily.
import { chip } from "./parts/answer_cards.js";
import { counted, el } from "./parts/elements.js";
import { getJson, postJson } from "./server.js";

const MOST_PICKED = 14; // attributes that are named as true; the list has them all
const MOST_ROWS = 120; // of the class table; more are found by searching

export function make(root, app) {
  return new Teach(root, app);
}

class Teach {
  constructor(root, app) {
    Object.assign(this, { app, values: new Map(), history: [], classes: [] });
    const { attributes, can } = app.model;
    this.attributes = attributes;
    this.name = el("input", { type: "text", id: "class-name", required: true, maxlength: app.model.limits.name, autocomplete: "off" });
    this.form = el("form", { class: "panel teach-form", onsubmit: (event) => { event.preventDefault(); this.teach(); } },
      el("label", { class: "control" }, el("span", {}, "Name"), this.name),
      can.sentence ? this.sentence() : null,
      attributes.length ? [this.like(), this.chosen(), this.choices()] : null,
      el("div", { class: "teach-end" }, el("button", { class: "primary", id: "teach-button" }, "Teach it"), el("label", { class: "check" }, this.replace = el("input", { type: "checkbox" }), el("span", {}, "replace the class if it exists"))));
    this.log = el("ol", { class: "history", "aria-label": "What was changed here" });
    root.replaceChildren(
      el("h1", {}, "Teach it a class"),
      el("p", { class: "lead" }, "A class is a name and what is true of it. No picture, no training: the next answer may be the new class."),
      can.teach && (attributes.length || can.sentence)
        ? el("div", { class: "two-columns even" }, this.form, el("div", { class: "main" }, el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Changes"), this.undoButton = el("button", { type: "button", id: "undo", disabled: true, onclick: () => this.undo() }, "Undo the last one")), this.log, this.none = el("p", { class: "hint" }, "Nothing yet.")), this.table()))
        : el("p", { class: "hint" }, "The classes of this model are described by numbers that have no names, so they are changed from the command line: ", el("code", {}, "firstsight classes add"), "."),
    );
    for (const one of attributes) this.values.set(one.name, one.low);
    this.showValues();
  }

  async open() {
    if (this.app.toTeach) this.suggest(this.app.toTeach);
    this.app.toTeach = null;
    await this.loadClasses();
  }

  // A letter with a mark says itself what it is made of; other names are left to the person.
  suggest(name) {
    this.name.value = name;
    const [base, mark] = name.normalize("NFD");
    const found = this.attributes.filter((one) => one.label === base || (mark && MARKS[mark] === one.label));
    if (this.app.model.can.draw && found.length === 2) this.fill(new Map(found.map((one) => [one.name, one.high])));
    this.name.focus();
  }

  // The form ---------------------------------------------------------------------------------------------------------

  sentence() {
    this.text = el("textarea", { rows: 3, maxlength: 2000, placeholder: "A small bird with a red head, a white belly and a long black bill." });
    return el("label", { class: "control" }, el("span", {}, this.attributes.length ? "A sentence that describes it (instead of attributes)" : "A sentence that describes it"), this.text);
  }

  like() {
    this.names = el("datalist", { id: "class-names" });
    const input = el("input", { type: "text", id: "like", list: "class-names", autocomplete: "off", placeholder: "the name of a class", onchange: () => this.app.doing(async () => {
      if (!input.value) return;
      const found = await getJson(`/api/classes/description?name=${encodeURIComponent(input.value)}`);
      this.fill(new Map(Object.entries(found.attributes)));
    }) });
    return el("label", { class: "control" }, el("span", {}, "Start from a class like …"), input, this.names);
  }

  chosen() {
    this.picked = el("div", { class: "pills picked" });
    return el("div", { class: "control" }, el("span", { id: "picked-label" }, "What is true of it"), this.picked);
  }

  choices() {
    const groups = new Map();
    for (const one of this.attributes) groups.set(one.group, [...(groups.get(one.group) ?? []), one]);
    const many = this.attributes.length > 80;
    this.inputs = new Map();
    const search = el("input", { type: "search", "aria-label": "Search attributes", placeholder: `Search ${counted(this.attributes.length, "attribute")}`, oninput: () => this.search(search.value) });
    this.groups = [...groups].map(([name, own]) =>
      el("details", { class: "group", open: !many }, el("summary", {}, name || "attributes", el("span", { class: "tally" }, ` ${own.length}`)), el("div", { class: own.every((one) => one.binary) ? "pills" : "sliders" }, own.map((one) => this.input(one)))));
    return el("div", { class: "control choices", role: "group", "aria-label": "Attributes" }, search, el("div", { class: "groups" }, this.groups));
  }

  input(one) {
    if (one.binary) {
      const box = el("input", { type: "checkbox", onchange: () => this.change(one, box.checked ? one.high : one.low) });
      this.inputs.set(one.name, box);
      return el("label", { class: "pill", "data-name": one.name.toLowerCase() }, box, el("span", {}, one.label));
    }
    const range = el("input", { type: "range", min: one.low, max: one.high, step: (one.high - one.low) / 100 || 1, oninput: () => this.change(one, Number(range.value)) });
    this.inputs.set(one.name, range);
    return el("label", { class: "slider", "data-name": one.name.toLowerCase() }, el("span", {}, one.label), range, el("output", {}));
  }

  search(words) {
    const wanted = words.toLowerCase().trim();
    for (const group of this.groups) {
      const lines = [...group.querySelectorAll("label")];
      for (const line of lines) line.hidden = !line.dataset.name.includes(wanted);
      group.hidden = lines.every((line) => line.hidden);
      if (wanted && !group.hidden) group.open = true;
    }
  }

  fill(values) {
    for (const one of this.attributes) this.values.set(one.name, values.get(one.name) ?? one.low);
    this.showValues();
  }

  change(one, value) {
    this.values.set(one.name, value);
    this.showValues();
  }

  showValues() {
    if (!this.picked) return;
    const on = [];
    for (const one of this.attributes) {
      const value = this.values.get(one.name), input = this.inputs.get(one.name);
      if (one.binary) input.checked = value > (one.low + one.high) / 2;
      else {
        input.value = value;
        input.nextElementSibling.textContent = Number(value).toPrecision(3);
      }
      const share = (value - one.low) / (one.high - one.low || 1);
      if (share > 0.5) on.push([share, one]);
    }
    on.sort(([a], [b]) => b - a);
    const shown = on.slice(0, MOST_PICKED).map(([, one]) =>
      el("button", { type: "button", class: "pill on", "aria-label": `${one.name}: take it away`, onclick: () => this.change(one, one.low) }, [one.group, one.label].filter(Boolean).join(" "), el("span", { class: "cross", "aria-hidden": "true" }, "×")));
    if (on.length > MOST_PICKED) shown.push(el("span", { class: "hint" }, `and ${on.length - MOST_PICKED} more`));
    this.picked.replaceChildren(...(shown.length ? shown : [el("span", { class: "hint" }, "Nothing chosen yet.")]));
  }

  // Changes ----------------------------------------------------------------------------------------------------------

  teach() {
    return this.app.doing(async () => {
      const text = this.text?.value.trim() || null;
      const attributes = text ? {} : Object.fromEntries(this.values);
      const done = await postJson("/api/classes", { name: this.name.value.trim(), attributes, text, replace: this.replace.checked });
      await this.changed(done, `${this.name.value.trim()} is known now.`);
      this.form.reset();
      this.fill(new Map());
    });
  }

  undo() {
    const last = this.history.at(-1);
    return last && this.app.doing(async () => {
      const done = await postJson("/api/classes/undo", last.undo);
      this.history.pop();
      await this.changed(done, "Undone.", false);
    });
  }

  remove(name) {
    return this.app.doing(async () => this.changed(await postJson("/api/classes/remove", { names: [name] }), `${name} will not be an answer any more.`));
  }

  async changed(done, sentence, keep = true) {
    if (keep) this.history.push(done);
    await this.app.refresh();
    await this.loadClasses();
    this.log.replaceChildren(...this.history.map((one) => el("li", {}, one.done.map((what) => `${what.class} ${what.what}`).join(", "))));
    this.none.hidden = this.history.length > 0;
    this.undoButton.disabled = !this.history.length;
    this.app.notice(`${sentence} ${counted(done.classes, "class")} in all.${done.durable ? "" : " It is kept until the server stops."} `, el("a", { href: "#recognise" }, "Recognise something"));
  }

  // The table --------------------------------------------------------------------------------------------------------

  table() {
    this.rows = el("ul", { class: "class-list" });
    this.more = el("p", { class: "hint" });
    const search = el("input", { type: "search", "aria-label": "Search classes", placeholder: "Search classes", oninput: () => this.showClasses(search.value) });
    this.find = search;
    return el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Classes"), el("a", { class: "button", href: "/api/classes.csv", download: "classes.csv" }, "Save the table")), search, this.rows, this.more);
  }

  async loadClasses() {
    this.classes = (await getJson("/api/classes")).classes;
    this.names?.replaceChildren(...this.classes.map((one) => el("option", { value: one.class })));
    if (this.rows) this.showClasses(this.find.value);
  }

  showClasses(words) {
    const wanted = words.toLowerCase().trim();
    const recent = this.history.flatMap((change) => change.done.map((what) => what.class)); // what was changed here stands first
    const fits = this.classes.filter((one) => String(one.class).toLowerCase().includes(wanted)).sort((a, b) => recent.lastIndexOf(b.class) - recent.lastIndexOf(a.class));
    this.rows.replaceChildren(...fits.slice(0, MOST_ROWS).map((one) =>
      el("li", {}, el("span", { class: "class-name" }, one.class), chip(one.seen ? "seen" : "unseen"),
        el("button", { type: "button", class: "quiet", "aria-label": `Remove ${one.class}`, onclick: () => this.remove(one.class) }, "Remove"))));
    this.more.textContent = fits.length > MOST_ROWS ? `and ${fits.length - MOST_ROWS} more; search for them.` : fits.length ? "" : "No class is called so.";
  }
}

// Unicode's words for marks, as the letters' attributes have them.
const MARKS = {
  "\u0300": "grave", "\u0301": "acute", "\u0302": "circumflex", "\u0303": "tilde", "\u0304": "macron", "\u0306": "breve", "\u0307": "dot above",
  "\u0308": "diaeresis", "\u030a": "ring above", "\u030b": "double acute", "\u030c": "caron", "\u031b": "horn", "\u0327": "cedilla", "\u0328": "ogonek",
};
