// "It is …": a dialog with every class. The model learns the chosen one at once, or the picture is kept for the next `learn`.
import { chip } from "./parts/answer_cards.js";
import { breakable, counted, el } from "./parts/elements.js";
import { getJson } from "./server.js";

const MOST_SHOWN = 200; // classes in the list; more are found by searching

// Case, marks, hyphens and underscores do not matter: "indigo bunting" finds 014.Indigo_Bunting.
const plain = (text) => text.normalize("NFD").replaceAll(/\p{M}/gu, "").toLowerCase().replaceAll(/[_\s-]+/g, " ").trim();

// How well a name fits what was typed; 0 is best, Infinity does not fit.
function misfit(name, words) {
  const ways = [name === words, name.startsWith(words), plain(name) === plain(words), plain(name).startsWith(plain(words)), plain(name).includes(plain(words))];
  const found = ways.indexOf(true);
  return found < 0 ? Infinity : found;
}

export class ClassDialog {
  constructor() {
    this.picture = el("img", { alt: "" });
    this.search = el("input", { type: "search", role: "combobox", "aria-label": "Search classes", "aria-expanded": "true", "aria-controls": "class-options", "aria-autocomplete": "list", autocomplete: "off", oninput: () => this.filter(), onkeydown: (event) => this.move(event) });
    this.list = el("ul", { id: "class-options", class: "class-options", role: "listbox", "aria-label": "Classes", onclick: (event) => this.pick(event), onmousedown: (event) => { if (event.target.closest("li")) event.preventDefault(); } }); // the cursor stays in the search field
    this.more = el("p", { class: "hint", role: "status" });
    this.problem = el("p", { class: "answer-error", role: "alert" });
    this.buttons = el("div", { class: "dialog-buttons" });
    const cancel = el("button", { type: "button", class: "quiet", onclick: () => this.box.close() }, "Cancel");
    this.form = el("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); this.buttons.firstElementChild.click(); } },
      el("div", { class: "dialog-head" }, this.picture, el("h2", { id: "class-dialog-title" }, "What does it show?"), cancel),
      this.search, this.list, this.more, this.problem, this.buttons);
    this.box = el("dialog", { class: "class-dialog", "aria-labelledby": "class-dialog-title" }, this.form);
    document.body.append(this.box);
  }

  // `actions`: the words of each button and what it does with a class, which may return what to do once the dialog is
  // closed. The first is that of the Enter key.
  async open(entry, actions) {
    const { classes } = await getJson("/api/classes");
    const ranks = new Map(entry.top.map((one, place) => [one.class, place]));
    const rank = ({ class: name }) => ranks.get(name) ?? Infinity;
    this.classes = classes.sort((a, b) => (rank(a) === rank(b) ? a.class.localeCompare(b.class, undefined, { numeric: true }) : rank(a) - rank(b)));
    this.picture.hidden = !entry.picture;
    if (entry.picture) this.picture.src = entry.picture;
    this.search.value = this.problem.textContent = "";
    this.search.placeholder = `Search ${counted(classes.length, "class")}`;
    this.buttons.replaceChildren(...actions.map(([words, act], place) => el("button", { type: "button", class: place ? null : "primary", onclick: () => this.act(act) }, words)));
    this.filter();
    this.box.showModal();
    this.search.focus();
  }

  async act(act) {
    if (!this.chosen || this.busy) return;
    this.busy = true;
    this.enable();
    this.problem.textContent = "";
    try {
      const after = await act(this.chosen);
      this.box.close();
      after?.();
    } catch (error) {
      this.problem.textContent = error.message;
    } finally {
      this.busy = false;
      this.enable();
    }
  }

  filter() {
    const words = this.search.value.trim();
    const fits = words ? this.classes.map((one) => [misfit(one.class, words), one]).filter(([far]) => far < Infinity).sort(([a], [b]) => a - b).map(([, one]) => one) : this.classes;
    this.options = fits.slice(0, MOST_SHOWN).map((one, place) =>
      el("li", { role: "option", id: `class-option-${place}`, "data-class": one.class, "aria-selected": "false" }, el("span", { class: "class-name" }, breakable(one.class)), chip(one.seen ? "seen" : "unseen")));
    this.list.replaceChildren(...this.options);
    this.list.scrollTop = 0;
    const left = fits.length - this.options.length;
    this.more.textContent = left > 0 ? `and ${left.toLocaleString("en")} more; search for them.` : fits.length ? "" : "No class is called so. A new class is added under Teach.";
    this.choose(words && fits.length ? 0 : -1);
  }

  choose(place) {
    this.place = place;
    this.chosen = this.options[place]?.dataset.class ?? null;
    for (const [other, option] of this.options.entries()) option.setAttribute("aria-selected", String(other === place));
    this.search.setAttribute("aria-activedescendant", place < 0 ? "" : this.options[place].id);
    this.options[place]?.scrollIntoView({ block: "nearest" });
    this.enable();
  }

  enable() {
    for (const button of this.buttons.children) button.disabled = !this.chosen || Boolean(this.busy);
  }

  move(event) {
    const last = this.options.length - 1;
    const next = { ArrowDown: Math.min(this.place + 1, last), ArrowUp: Math.max(this.place - 1, 0), PageDown: Math.min(this.place + 6, last), PageUp: Math.max(this.place - 6, 0) }[event.key];
    if (next === undefined || last < 0) return;
    event.preventDefault();
    this.choose(next);
  }

  pick(event) {
    const option = event.target.closest("li");
    if (option) this.choose(this.options.indexOf(option));
  }
}
