// How good it is: figures, seen against unseen as a constant moves, and every class.
import { chip } from "./parts/answer_cards.js";
import { counted, el, percent } from "./parts/elements.js";
import { getJson } from "./server.js";
import uPlot from "./vendor/uPlot.esm.js";

const FIGURES = [
  ["t1", "T1", "unseen classes, with only these as candidates"],
  ["ts", "ts", "unseen classes, with all classes as candidates"],
  ["tr", "tr", "seen classes, with all classes as candidates"],
  ["h", "H", "harmonic mean of ts and tr"],
  ["ausuc", "AUSUC", "area under the curve of seen against unseen"],
];
const LINES = [["ts", "ts, unseen", "unseen"], ["tr", "tr, seen", "seen"], ["h", "H", "ink"]];

function nearest(numbers, wanted) {
  return numbers.reduce((best, number, place) => (Math.abs(number - wanted) < Math.abs(numbers[best] - wanted) ? place : best), 0);
}

export function make(root, app) {
  return new Measure(root, app);
}

class Measure {
  constructor(root, app) {
    Object.assign(this, { app, root, revision: null, order: { key: "accuracy", up: true }, kind: "", words: "" });
    root.replaceChildren(el("h1", {}, "How good is it?"), this.place = el("div", { class: "measures" }));
  }

  async open() {
    if (!this.app.model.can.measure) {
      if (this.place.childElementCount) return;
      this.place.replaceChildren(
        el("div", { class: "empty" }, el("p", {}, "There are no labelled samples to measure on."), el("span", {}, "Start the server with them: ", el("code", {}, "firstsight serve MODEL --samples PICTURES"))),
        this.expected(), this.report());
      return;
    }
    if (this.revision === this.app.revision) return;
    this.place.replaceChildren(el("p", { class: "hint" }, "Measuring …"));
    this.data = await getJson("/api/measure");
    this.revision = this.app.revision;
    const { trade_off: curve } = this.data;
    this.place.replaceChildren(...this.measuredOn(),
      this.tiles(this.data.figures), this.expected(), curve ? this.tradeOff(curve) : "", this.perClass(), this.report());
    if (curve) this.plot(curve);
  }

  // Which samples the figures rest on. Those of the training say nothing about new pictures, and are counted apart.
  measuredOn() {
    const { samples, training } = this.data;
    const by = { content: " (recognised by identical file content)", features: " (recognised by identical feature values)" }[training.recognised_by] ?? "";
    const parts = [["no", "that training has not seen"], ["unlabelled", "that training had without their labels"], ["unknown", "of which the model cannot tell whether training had them"]]
      .filter(([key]) => training[key]).map(([key, words]) => `${counted(training[key], "picture")} ${words}`);
    const lead = samples ? `Measured on ${parts.join(" and ")}${by}. All figures are means over classes.` : "There is no picture to measure on that training has not seen.";
    const own = training.labelled ? `Not measured on: ${counted(training.labelled, "training picture")}${by}. ${training.labelled_right.toLocaleString("en")} of ${training.labelled.toLocaleString("en")} are named right, which says nothing about new pictures.` : null;
    return [el("p", { class: "lead" }, lead), own ? el("p", { class: "hint" }, own) : ""];
  }

  tiles(figures) {
    return el("ul", { class: "tiles" }, FIGURES.filter(([key]) => typeof figures[key] === "number").map(([key, title, words]) =>
      el("li", {}, el("span", { class: "tile-title" }, title), el("b", {}, (100 * figures[key]).toFixed(1)), el("span", {}, words))));
  }

  expected() {
    const { expected } = this.app.model;
    if (!expected || typeof expected.t1 !== "number") return "";
    const range = `chance ${percent(expected.t1_chance)}, 95 % interval ${percent(expected.t1_low)} to ${percent(expected.t1_high)}`;
    if (expected.t1_low <= expected.t1_chance) return el("p", { class: "hint" }, `When it was trained, T1 on classes held out of training was ${percent(expected.t1)} (${range}): too few classes to say what to expect of new ones.`);
    return el("p", { class: "hint" }, `Measured when it was trained, on classes held out of training: expect T1 ${percent(expected.t1)} (${range})` + (typeof expected.h === "number" ? ` and H ${percent(expected.h)}` : "") + " of new classes.");
  }

  // Seen against unseen ----------------------------------------------------------------------------------------------

  tradeOff(curve) {
    const { constants } = curve;
    this.slider = el("input", { type: "range", id: "constant", min: constants[0], max: constants.at(-1), step: "any", oninput: () => this.move(curve, nearest(constants, Number(this.slider.value))) });
    this.stand = curve.now; // where on the curve the slider stands
    this.told = el("p", { class: "told", role: "status" });
    this.chart = el("div", { class: "chart", role: "img", "aria-label": "Accuracy of seen and of unseen classes, and their harmonic mean, as a constant is taken off the scores of seen classes" });
    const jump = (place, words) => (place === null || place === undefined ? null : el("button", { type: "button", onclick: () => this.jump(curve, place) }, words));
    return el("section", { class: "panel" }, el("h2", {}, "Seen against unseen classes"),
      el("p", { class: "hint" }, "Methods prefer the classes they were trained on. A constant taken off the scores of seen classes moves the balance; it costs no training."),
      this.chart,
      el("label", { class: "control" }, el("span", {}, "Constant taken off seen classes"), this.slider), this.told,
      el("div", { class: "row" }, jump(curve.now, "As it is"), jump(curve.suggested, "As calibration suggests")));
  }

  plot(curve) {
    const style = getComputedStyle(this.root), token = (name) => style.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: token("muted"), grid: { stroke: token("line"), width: 1 }, ticks: { stroke: token("line"), width: 1 }, font: `12px ${token("sans")}` };
    this.drawn?.destroy();
    this.drawn = new uPlot({
      width: this.chart.clientWidth, height: 300, scales: { x: { time: false }, y: { range: [0, 100] } }, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
      axes: [{ ...axis, label: "constant", labelFont: axis.font, labelSize: 18, labelGap: 0, size: 30 }, { ...axis, label: "%", labelFont: axis.font, size: 44, labelSize: 18 }],
      series: [{}, ...LINES.map(([, label, colour], number) => ({ label, stroke: token(colour), width: 2.2, dash: number === 2 ? [2, 0] : number ? [6, 4] : [], points: { show: false } }))],
      hooks: { draw: [(chart) => this.rule(chart, curve, token)] },
    }, [curve.constants, ...LINES.map(([key]) => curve[key].map((value) => 100 * value))], this.chart);
    this.drawn.over.addEventListener("click", () => { if (this.drawn.cursor.idx !== null) this.jump(curve, this.drawn.cursor.idx); });
    this.jump(curve, this.stand);
    this.watch ??= new ResizeObserver(() => { if (this.chart.clientWidth) this.drawn.setSize({ width: this.chart.clientWidth, height: 300 }); });
    this.watch.observe(this.chart);
    this.dark ??= matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.plot(this.data.trade_off)) ?? true;
  }

  // The constant that the slider stands at, with a mark on each line, and the lines' names at their ends.
  rule(chart, curve, token) {
    const pen = chart.ctx, place = this.stand, fine = window.devicePixelRatio || 1;
    const x = chart.valToPos(curve.constants[place], "x", true);
    pen.save();
    Object.assign(pen, { strokeStyle: token("faint"), lineWidth: fine });
    pen.beginPath();
    pen.moveTo(x, chart.bbox.top);
    pen.lineTo(x, chart.bbox.top + chart.bbox.height);
    pen.stroke();
    for (const [key, , colour] of LINES) {
      Object.assign(pen, { fillStyle: token(colour), strokeStyle: token("card"), lineWidth: 2 * fine });
      pen.beginPath();
      pen.arc(x, chart.valToPos(100 * curve[key][place], "y", true), 5 * fine, 0, 7);
      pen.fill();
      pen.stroke();
    }
    pen.restore();
  }

  jump(curve, place) {
    this.slider.value = curve.constants[place];
    this.move(curve, place);
  }

  move(curve, place) {
    this.stand = place;
    const number = (key) => `${(100 * curve[key][place]).toFixed(1)} %`;
    const constant = curve.constants[place];
    this.told.replaceChildren(
      constant === 0 ? "As it is: " : `With ${constant.toPrecision(3)} taken off: `,
      ...LINES.flatMap(([key, words, colour], at) => [at ? " · " : "", el("span", { class: `swatch ${colour}`, "aria-hidden": "true" }), `${words} `, el("strong", {}, number(key))]));
    this.slider.setAttribute("aria-valuetext", this.told.textContent);
    this.drawn?.redraw(false);
  }

  // Classes ----------------------------------------------------------------------------------------------------------

  perClass() {
    this.body = el("tbody");
    const head = (key, words, number) => {
      const button = el("button", { type: "button", class: "sort", onclick: () => { this.order = { key, up: this.order.key === key ? !this.order.up : key === "class" }; this.showClasses(); } }, words);
      return el("th", { scope: "col", class: number ? "number" : null, "data-key": key }, button);
    };
    this.heads = [head("class", "Class"), head("seen", "Kind"), head("rows", "Pictures", true), head("accuracy", "Right among all", true), head("among_own", "Right among its kind", true), el("th", { scope: "col" }, "Mostly taken for")];
    const kind = el("select", { "aria-label": "Which classes", onchange: () => { this.kind = kind.value; this.showClasses(); } }, [["", "seen and unseen"], ["seen", "seen"], ["unseen", "unseen"]].map(([value, words]) => el("option", { value }, words)));
    const search = el("input", { type: "search", "aria-label": "Search classes", placeholder: "Search classes", oninput: () => { this.words = search.value.toLowerCase().trim(); this.showClasses(); } });
    this.showClasses();
    return el("section", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Class by class"), search, kind),
      el("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Accuracy class by class" }, el("table", { class: "per-class" }, el("thead", {}, el("tr", {}, this.heads)), this.body)));
  }

  showClasses() {
    const { key, up } = this.order;
    const fits = (one) => (!this.kind || one.seen === (this.kind === "seen")) && String(one.class).toLowerCase().includes(this.words);
    const compared = (a, b) => (key === "class" ? String(a.class).localeCompare(String(b.class)) : Number(a[key] ?? -1) - Number(b[key] ?? -1));
    const rows = this.data.per_class.filter(fits).sort((a, b) => (up ? 1 : -1) * compared(a, b) || String(a.class).localeCompare(String(b.class)));
    for (const cell of this.heads) if (cell.dataset.key) cell.setAttribute("aria-sort", cell.dataset.key === key ? (up ? "ascending" : "descending") : "none");
    const bar = (one, value) => el("td", { class: `number bar ${one.seen ? "seen" : "unseen"}`, share: value ?? 0 }, percent(value));
    this.body.replaceChildren(...rows.map((one) =>
      el("tr", {}, el("th", { scope: "row" }, one.class), el("td", {}, chip(one.seen ? "seen" : "unseen")), el("td", { class: "number" }, one.rows), bar(one, one.accuracy), bar(one, one.among_own), el("td", {}, one.taken_for ?? "–"))));
  }

  // The benchmark ----------------------------------------------------------------------------------------------------

  report() {
    if (!this.app.model.can.report) return "";
    const place = el("section", { class: "panel benchmark" }, el("h2", {}, "The benchmark"), el("p", { class: "hint", role: "status" }, "Asking for the report …"));
    this.app.doing(() => this.followReport(place));
    return place;
  }

  // It is drawn when somebody asks for it first, which takes a while.
  async followReport(place) {
    const { state, url, error } = await getJson("/api/report");
    const told = place.querySelector("p");
    if (state === "making") {
      told.textContent = "Tables and figures are being drawn, which takes a minute or two …";
      setTimeout(() => { if (place.isConnected) this.app.doing(() => this.followReport(place)); }, 3000);
    } else if (state === "failed") {
      told.className = "answer-error";
      told.textContent = error;
    } else {
      told.replaceChildren("Every table and figure of the records that the server was given; also ", el("a", { href: url }, "on a page of its own"), ".");
      place.append(reportFrame(url));
    }
  }
}

// The report is a page with styles of its own, so it has a frame, as tall as what is in it.
function reportFrame(url) {
  const frame = el("iframe", { src: url, title: "The benchmark report", class: "report-frame", sandbox: "allow-same-origin allow-downloads allow-top-navigation-by-user-activation" });
  frame.addEventListener("load", () => {
    const inside = frame.contentDocument.documentElement;
    const fit = () => { frame.style.height = `${frame.contentDocument.body.scrollHeight + 8}px`; };
    new ResizeObserver(fit).observe(inside);
    fit();
  });
  return frame;
}
