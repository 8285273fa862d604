// One map on a canvas: thousands of points, with zoom, drag, and the point under the pointer.
import { el } from "./parts/elements.js";

const REACH = 12; // pixels within which a point is hit
const NEAREST = 0.8, FARTHEST = 40; // zoom

export class Scatter {
  constructor(space, data, { point, pick }) {
    Object.assign(this, { space, data, point, zoom: 1, middle: [0, 0], lit: null, choice: {}, fingers: new Map() });
    this.canvas = el("canvas", { class: "scatter", tabindex: 0, role: "application", "aria-roledescription": "map", "aria-label": `${space.title}: a map of ${data.samples.length} pictures and ${data.classes.length} descriptions. Plus and minus zoom, arrows move; the list “Point out” finds a class.` });
    const button = (words, label, work) => el("button", { type: "button", class: "quiet", "aria-label": label, onclick: work }, words);
    this.root = el("figure", { class: "map-figure" },
      el("figcaption", {}, el("h2", {}, space.title), el("span", { class: "zooms" }, button("+", "Zoom in", () => this.scale(1.5)), button("−", "Zoom out", () => this.scale(1 / 1.5)), button("All", "Show all", () => this.reset()))),
      this.canvas, space.note ? el("p", { class: "hint" }, space.note) : null);
    this.fit();
    this.canvas.plot = this; // for whoever wants to know where a point is drawn
    this.listen(pick);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(choice) {
    this.choice = choice;
    this.draw();
  }

  light(hit) {
    this.lit = hit;
    this.draw();
  }

  // Where things are -------------------------------------------------------------------------------------------------

  // The whole map fills the frame, wherever its points lie.
  fit() {
    const points = [...this.data.samples, ...this.data.classes].map((one) => one.at[this.space.name]).filter(Boolean);
    const ends = [0, 1].map((side) => points.reduce(([low, high], point) => [Math.min(low, point[side]), Math.max(high, point[side])], [Infinity, -Infinity]));
    this.middle = points.length ? ends.map(([low, high]) => (low + high) / 2) : [0, 0];
    this.extent = Math.max(1e-6, ...(points.length ? ends.map(([low, high]) => (high - low) / 2) : [1]));
  }

  get half() {
    return ((0.46 * Math.min(this.canvas.clientWidth, this.canvas.clientHeight)) / this.extent) * this.zoom;
  }

  onScreen([x, y]) {
    return [this.canvas.clientWidth / 2 + (x - this.middle[0]) * this.half, this.canvas.clientHeight / 2 - (y - this.middle[1]) * this.half];
  }

  scale(factor, at = null) {
    const before = this.half;
    this.zoom = Math.max(NEAREST, Math.min(FARTHEST, this.zoom * factor));
    if (at) { // what is under the pointer stays there
      const dx = at[0] - this.canvas.clientWidth / 2, dy = this.canvas.clientHeight / 2 - at[1];
      this.middle = [this.middle[0] + dx / before - dx / this.half, this.middle[1] + dy / before - dy / this.half];
    }
    this.draw();
  }

  move(dx, dy) {
    this.middle = [this.middle[0] - dx / this.half, this.middle[1] + dy / this.half];
    this.draw();
  }

  reset() {
    this.zoom = 1;
    this.fit();
    this.draw();
  }

  shown(one) {
    return (one.seen ? this.choice.seen : this.choice.unseen) && one.at[this.space.name];
  }

  hitAt(x, y) {
    let best = null, least = REACH * REACH;
    const nearer = (kind, one, bonus) => {
      const at = this.onScreen(one.at[this.space.name]);
      const away = (at[0] - x) ** 2 + (at[1] - y) ** 2 - bonus;
      if (away < least) [best, least] = [{ kind, one }, away];
    };
    if (this.choice.samples) for (const one of this.data.samples) if (this.shown(one)) nearer("sample", one, 0);
    if (this.choice.squares) for (const one of this.data.classes) if (this.shown(one)) nearer("class", one, 9);
    return best;
  }

  // Hands ------------------------------------------------------------------------------------------------------------

  listen(pick) {
    const { canvas, fingers } = this;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    let moved = 0;
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.scale(Math.exp(-event.deltaY * 0.0016), at(event)); }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, at(event)); moved = 0; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      const here = at(event), before = fingers.get(event.pointerId);
      if (!before) return this.point(this.hitAt(...here), event);
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      moved += Math.hypot(here[0] - before[0], here[1] - before[1]);
      if (others.length) this.scale(Math.hypot(here[0] - others[0][0], here[1] - others[0][1]) / Math.max(1, Math.hypot(before[0] - others[0][0], before[1] - others[0][1])), others[0]);
      else this.move(here[0] - before[0], here[1] - before[1]);
      fingers.set(event.pointerId, here);
      return undefined;
    });
    const lift = (event) => {
      fingers.delete(event.pointerId);
      if (event.type !== "pointerup" || moved > 6) return;
      const hit = this.hitAt(...at(event));
      this.point(hit, event);
      if (hit && event.pointerType === "mouse") pick(hit.one.class);
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") this.point(null, event); });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
      if (moves[event.key]) this.move(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.scale(1.3);
      else if (event.key === "-") this.scale(1 / 1.3);
      else if (event.key === "0") this.reset();
      else return;
      event.preventDefault();
    });
  }

  // Drawing ----------------------------------------------------------------------------------------------------------

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.drawNow(); });
  }

  drawNow() {
    const { canvas } = this;
    const width = canvas.clientWidth, height = canvas.clientHeight, fine = window.devicePixelRatio || 1;
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * fine) || canvas.height !== Math.round(height * fine)) Object.assign(canvas, { width: Math.round(width * fine), height: Math.round(height * fine) });
    const pen = canvas.getContext("2d"), style = getComputedStyle(canvas);
    const token = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = { seen: token("seen"), unseen: token("unseen"), right: token("good"), wrong: token("bad"), ink: token("ink"), card: token("card"), font: token("sans") };
    this.size = Math.max(0.65, Math.min(1, width / 560)); // of marks: a phone has less room
    pen.setTransform(fine, 0, 0, fine, 0, 0);
    pen.clearRect(0, 0, width, height);
    const name = this.choice.name || this.lit?.one.class || "";
    if (this.choice.samples) for (const one of this.data.samples) if (this.shown(one)) this.dot(pen, one, name);
    if (this.choice.squares) for (const one of this.data.classes) if (this.shown(one)) this.square(pen, one, name);
  }

  colourOf(one, kind) {
    if (this.choice.colour === "class") return classColour(one.class);
    if (this.choice.colour === "right" && kind === "sample") return this.colours[one.answer === one.class ? "right" : "wrong"];
    return this.colours[one.seen ? "seen" : "unseen"];
  }

  dot(pen, one, name) {
    const [x, y] = this.onScreen(one.at[this.space.name]);
    const own = name && one.class === name, lit = this.lit?.kind === "sample" && this.lit.one.id === one.id;
    pen.globalAlpha = own || lit ? 1 : name ? 0.16 : 0.55;
    pen.fillStyle = this.colourOf(one, "sample");
    pen.beginPath();
    pen.arc(x, y, (lit ? 7 : own ? 5 : 3) * this.size * Math.min(2, Math.sqrt(this.zoom)), 0, 7);
    pen.fill();
    if (lit) this.outline(pen, 2);
  }

  square(pen, one, name) {
    const [x, y] = this.onScreen(one.at[this.space.name]);
    const own = one.class === name, size = own || one.taught ? 13 : Math.max(6, 8 * this.size);
    pen.globalAlpha = own || one.taught || !name ? 1 : 0.3;
    pen.fillStyle = this.colourOf(one, "class");
    pen.beginPath();
    pen.rect(x - size / 2, y - size / 2, size, size);
    pen.fill();
    this.outline(pen, own || one.taught ? 2 : 1, own || one.taught ? "ink" : "card"); // a pale rim keeps neighbours apart
    if (own || one.taught || this.zoom > 3) this.word(pen, String(one.class), x + size / 2 + 4, y);
  }

  outline(pen, width, colour = "ink") {
    pen.lineWidth = width;
    pen.strokeStyle = this.colours[colour];
    pen.stroke();
  }

  word(pen, text, x, y) {
    Object.assign(pen, { font: `600 13px ${this.colours.font}`, textBaseline: "middle", lineWidth: 4, lineJoin: "round", strokeStyle: this.colours.card, fillStyle: this.colours.ink });
    const shown = text.length > 28 ? `${text.slice(0, 27)}…` : text;
    pen.strokeText(shown, x, y);
    pen.fillText(shown, x, y);
  }
}

// A hue from the name: always the same, and neighbours in the alphabet differ.
function classColour(name) {
  let hash = 7;
  for (const letter of String(name)) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  return `oklch(0.66 0.15 ${(hash * 137.508) % 360})`;
}
