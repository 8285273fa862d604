// The embedding as a map: samples are dots, descriptions squares; to zoom, to point at, to filter.
import { counted, el } from "./parts/elements.js";
import { getJson } from "./server.js";
import { Scatter } from "./scatter.js";

export function make(root, app) {
  return new Atlas(root, app);
}

class Atlas {
  constructor(root, app) {
    Object.assign(this, { app, root, revision: null, choice: { seen: true, unseen: true, samples: true, squares: true, colour: "kind", name: "" } });
    this.place = el("div", { class: "maps" });
    this.tip = el("div", { class: "tip", role: "status", hidden: true });
    this.said = el("p", { class: "hint", role: "status" });
    root.replaceChildren(
      el("h1", {}, "Where the classes lie"),
      el("p", { class: "lead" }, "Dots are pictures, squares are descriptions. A picture is named after the square that suits it best, so dots of a class should gather around theirs."),
      this.bar = el("div", { class: "map-bar" }), this.said, this.place, this.tip);
  }

  async open() {
    if (!this.app.model.can.map) {
      this.place.replaceChildren(el("div", { class: "empty" }, el("p", {}, "There are no samples to lay out."), el("span", {}, "Start the server with them: ", el("code", {}, "firstsight serve MODEL --samples PICTURES"))));
      return;
    }
    if (this.revision === this.app.revision) return;
    this.said.textContent = "Laying out the map …";
    this.data = await getJson("/api/map");
    this.revision = this.app.revision;
    this.controls();
    this.draw();
  }

  controls() {
    const { choice } = this;
    const box = (key, words, look) => {
      const made = el("input", { type: "checkbox", onchange: () => { choice[key] = made.checked; this.update(); } });
      made.checked = choice[key];
      return el("label", { class: "check" }, made, el("span", { class: `key ${look}`, "aria-hidden": "true" }), el("span", {}, words));
    };
    const colours = el("select", { onchange: () => { choice.colour = colours.value; this.update(); } },
      [["kind", "seen and unseen"], ["right", "right and wrong"], ["class", "class"]].map(([value, words]) => el("option", { value }, words)));
    colours.value = choice.colour;
    const names = this.data.classes.map((one) => one.class);
    const find = el("select", { id: "map-class", onchange: () => { choice.name = find.value; this.update(); this.tellClass(); } },
      el("option", { value: "" }, "none"), [...names].sort((a, b) => String(a).localeCompare(String(b))).map((name) => el("option", { value: name }, name)));
    find.value = names.includes(choice.name) ? choice.name : "";
    this.bar.replaceChildren(
      box("seen", "seen", "dot seen"), box("unseen", "unseen", "dot unseen"), box("samples", "pictures", "dot"), box("squares", "descriptions", "square"),
      el("label", { class: "control inline" }, el("span", {}, "Colour by"), colours), el("label", { class: "control inline" }, el("span", {}, "Point out"), find));
    this.said.textContent = `${counted(this.data.samples.length, "picture")}, ${counted(this.data.classes.length, "class")}. Scroll or pinch to zoom, drag to move, point to look.`;
  }

  draw() {
    this.plots = this.data.spaces.map((space) => {
      const plot = new Scatter(space, this.data, {
        point: (hit, event) => this.point(hit, event),
        pick: (name) => { this.choice.name = this.choice.name === name ? "" : name; document.getElementById("map-class").value = this.choice.name; this.update(); this.tellClass(); },
      });
      return plot;
    });
    this.place.classList.toggle("pair", this.plots.length > 1);
    this.place.replaceChildren(...this.plots.map((plot) => plot.root));
    this.update();
  }

  update() {
    for (const plot of this.plots) plot.show(this.choice);
  }

  tellClass() {
    const { name } = this.choice;
    const own = this.data.samples.filter((one) => one.class === name);
    const right = own.filter((one) => one.answer === name).length;
    const trained = own.filter((one) => one.in_training === "labelled").length;
    const among = trained ? ` ${trained === own.length ? "All of them are" : `${trained} of them ${trained === 1 ? "is a" : "are"}`} training picture${trained === 1 ? "" : "s"}.` : "";
    this.said.textContent = name ? (own.length ? `${name}: ${counted(own.length, "picture")}, ${right} of them named right.${among}` : `${name}: no picture of it on the map.`) : "";
  }

  // The same picture is lit up on every map, and its card follows the pointer.
  point(hit, event) {
    for (const plot of this.plots) plot.light(hit);
    this.tip.hidden = !hit;
    if (!hit) return;
    const { kind, one } = hit;
    const words = kind === "sample"
      ? [el("strong", {}, one.class), el("span", {}, one.answer === one.class ? "named right" : `named ${one.answer}`), el("span", {}, one.in_training === "labelled" ? "a training picture" : one.seen ? "of a seen class" : one.known ? "unseen" : "not among the classes")]
      : [el("strong", {}, one.class), el("span", {}, one.taught ? "a class taught just now" : "its description"), el("span", {}, one.seen ? "seen in training" : "unseen")];
    this.tip.replaceChildren(...(one.picture ? [el("img", { src: one.picture, alt: `A picture of ${one.class}` })] : []), el("div", {}, words));
    const width = document.documentElement.clientWidth;
    this.tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, width - this.tip.offsetWidth - 8))}px`;
    this.tip.style.top = `${event.clientY + 14 + this.tip.offsetHeight > window.innerHeight ? event.clientY - this.tip.offsetHeight - 10 : event.clientY + 14}px`;
  }
}
