// Pictures in; ranked classes, confidence and reasons out.
import { AnswerGrid, chip } from "./parts/answer_cards.js";
import { breakable, counted, el } from "./parts/elements.js";
import { ClassDialog } from "./correct.js";
import { drawingPad } from "./drawing.js";
import { getBlob, getJson, patiently, postForm, postJson } from "./server.js";

const AT_ONCE = 16; // pictures per request: the first answers are there while the last ones wait
const SAMPLES = 18;

export function make(root, app) {
  return new Recognise(root, app);
}

class Recognise {
  constructor(root, app) {
    Object.assign(this, { app, pictures: [], revision: app.revision, run: 0, seed: 0 });
    const { can } = app.model;
    this.results = el("div", { class: "results" });
    this.progress = el("p", { class: "progress", role: "status" });
    root.replaceChildren(
      el("h1", {}, "What is in a picture?"),
      can.pictures ? "" : el("p", { class: "hint" }, "This model was fitted on features, not on pictures: give it rows of features from the command line, or look at its map and its figures."),
      el("div", { class: "two-columns", hidden: !can.pictures },
        el("div", { class: "side" }, this.dropZone(), can.draw ? drawingPad((file) => this.recognise([{ file }])) : null, can.samples ? this.samples() : null, this.options()),
        el("div", { class: "main" }, this.progress, this.results)),
    );
    this.grid = new AnswerGrid(this.results, { extra: (entry) => this.extras(entry) });
    this.empty = nothingYet(can.draw ? "Draw a letter, drop a picture, or take a sample." : "Drop a picture, paste one, or choose some.", app.model.calibrated);
    this.results.prepend(this.empty);
    if (can.pictures) this.listen();
  }

  async open() {
    if (this.revision !== this.app.revision && this.pictures.length) await this.recognise(this.pictures); // classes have changed: see who wins now
  }

  // Ways in ----------------------------------------------------------------------------------------------------------

  dropZone() {
    const input = el("input", { type: "file", multiple: true, accept: "image/*,.heic,.tif,.tiff,.jp2", onchange: () => { this.take(input.files); input.value = ""; } });
    this.zone = el("label", { class: "drop" }, input, el("span", { class: "drop-big" }, "Choose pictures"), el("span", {}, "or drop them anywhere, or paste one"));
    return this.zone;
  }

  listen() {
    const active = () => !document.getElementById("recognise").hidden;
    window.addEventListener("dragover", (event) => { if (active()) { event.preventDefault(); this.zone.classList.add("over"); } });
    window.addEventListener("dragleave", (event) => { if (!event.relatedTarget) this.zone.classList.remove("over"); });
    window.addEventListener("drop", (event) => {
      if (!active()) return;
      event.preventDefault();
      this.zone.classList.remove("over");
      this.take(event.dataTransfer.files);
    });
    window.addEventListener("paste", (event) => { if (active() && event.clipboardData.files.length) this.take(event.clipboardData.files); });
  }

  take(files) {
    if (files.length) this.recognise([...files].map((file) => ({ file })));
  }

  samples() {
    this.strip = el("div", { class: "samples" });
    const others = el("button", { type: "button", class: "quiet", onclick: () => { this.seed += 1; this.loadSamples(); } }, "Others");
    const all = el("button", { type: "button", class: "quiet", onclick: () => this.app.doing(() => this.recogniseSamples(this.shown)) }, "Recognise all");
    this.loadSamples();
    return el("div", { class: "panel" }, el("div", { class: "panel-head" }, el("h2", {}, "Samples"), others, all), this.strip);
  }

  loadSamples() {
    return this.app.doing(async () => {
      this.shown = (await getJson(`/api/samples?limit=${SAMPLES}&seed=${this.seed}`)).samples;
      this.strip.replaceChildren(...this.shown.map((sample) =>
        el("button", { type: "button", class: sample.known ? "" : "unknown", title: sample.known ? sample.class : `${sample.class}: not among the model's classes yet`, "aria-label": `Recognise a sample of ${sample.class}`, onclick: () => this.app.doing(() => this.recogniseSamples([sample])) },
          el("img", { src: sample.url, alt: "", loading: "lazy" }))));
    });
  }

  async recogniseSamples(samples) {
    const pictures = await Promise.all(samples.map(async (sample) => {
      const blob = await getBlob(sample.url);
      return { file: new File([blob], `sample ${sample.id}.png`, { type: blob.type }), sample };
    }));
    await this.recognise(pictures);
  }

  options() {
    const { calibrated } = this.app.model;
    this.choice = { classes: "all" }; // options of /api/predict that differ from its defaults
    const again = () => { if (this.pictures.length) this.recognise(this.pictures); };
    const select = el("select", { onchange: () => { this.choice.classes = select.value; again(); } },
      [["all", "all classes"], ["seen", "seen ones only"], ["unseen", "unseen ones only"]].map(([value, words]) => el("option", { value }, words)));
    const box = (key, checked, words) => {
      const input = el("input", { type: "checkbox", onchange: () => { if (input.checked) this.choice[key] = checked; else delete this.choice[key]; again(); } });
      return el("label", { class: "check" }, input, el("span", {}, words));
    };
    return el("details", { class: "panel" }, el("summary", {}, "Options"),
      el("label", { class: "control" }, el("span", {}, "Choose among"), select),
      calibrated
        ? [box("reject_far", false, "Name everything, even what looks like nothing the model has seen"), box("reject_share", 0.05, "Say “none of these” where no class fits well"), box("shift_seen", true, "Hold seen classes back by the measured constant")]
        : null);
  }

  // Answers ----------------------------------------------------------------------------------------------------------

  recognise(pictures) {
    const run = (this.run += 1); // whoever asks later wins
    const { limits } = this.app.model;
    return this.app.doing(async () => {
      this.app.quiet();
      for (const { file } of pictures) {
        if (file.size > limits.upload_bytes) throw new Error(`${file.name} has ${Math.ceil(file.size / 2 ** 20)} MB; a picture may have ${Math.floor(limits.upload_bytes / 2 ** 20)} MB.`);
      }
      this.pictures = pictures;
      this.revision = this.app.revision;
      this.results.classList.add("waiting");
      try {
        const entries = await this.inTurns(pictures, run);
        if (run === this.run) this.bringIntoView();
        if (run === this.run && entries.length === 1 && entries[0].error) throw new Error(`${entries[0].file} is ${entries[0].error}.`);
      } finally {
        if (run === this.run) {
          this.progress.textContent = "";
          this.results.classList.remove("waiting");
        }
      }
    });
  }

  async inTurns(pictures, run) {
    const entries = [];
    for (const batch of batches(pictures, this.app.model.limits)) {
      if (run !== this.run) return entries;
      if (batch.length < pictures.length) this.progress.textContent = `${entries.length} of ${counted(pictures.length, "picture")} …`;
      const form = new FormData();
      for (const { file } of batch) form.append("pictures", file, file.name);
      for (const [key, value] of Object.entries(this.choice)) form.append(key, String(value));
      const found = await patiently(() => postForm("/api/predict", form)).catch((error) => {
        if (error.status !== 422 || pictures.length === 1) throw error;
        return { answers: batch.map(({ file }) => ({ file: file.name, class: null, confidence: null, top: [], why: null, error: error.message })) }; // none of these can be read; others may be
      });
      if (run !== this.run) return entries;
      if (found.revision && found.revision !== this.app.revision) {
        await this.app.refresh(); // somebody else has taught a class
        this.revision = this.app.revision;
      }
      entries.push(...found.answers.map((entry, place) => this.entryOf(entry, batch[place])));
      this.show(entries);
    }
    return entries;
  }

  // On a phone the answers lie below what was drawn or chosen.
  bringIntoView() {
    const top = this.results.getBoundingClientRect().top;
    if (top > window.innerHeight * 0.7) window.scrollTo({ top: window.scrollY + top - 64, behavior: "smooth" });
  }

  entryOf(entry, picture) {
    picture.url ??= URL.createObjectURL(picture.file);
    return { ...entry, picture: entry.error ? null : picture.url, truth: picture.sample?.class ?? null, in_training: picture.sample ? picture.sample.in_training : entry.in_training, source: picture };
  }

  show(entries) {
    this.empty.remove();
    this.results.classList.toggle("single", entries.length === 1);
    this.grid.set(entries.map((entry) => ({ ...entry })));
    for (const picture of this.results.querySelectorAll(".answer-picture img")) picture.addEventListener("error", () => picture.parentElement.remove()); // a format that browsers do not show
  }

  // What a person can do with an answer: say what the picture shows, or teach a class that is missing.
  extras(entry) {
    const { source } = entry;
    const made = [];
    if (source?.sample && !source.sample.known && entry.truth !== entry.class) {
      made.push(el("button", { type: "button", class: "primary", onclick: () => { this.app.toTeach = source.sample.class; this.app.show("teach"); } }, `Teach “${source.sample.class}”`));
    }
    const { correct, keep } = this.app.model.can;
    if (source && entry.top.length && (correct || keep)) made.push(this.labelling(entry, correct, keep));
    return made;
  }

  labelling(entry, correct, keep) {
    const actions = [];
    if (correct) actions.push(["Learn it", (name) => this.learn(entry.source, name)]);
    if (keep) actions.push(["Keep it", (name) => this.keep(entry.source, name)]);
    this.dialog ??= new ClassDialog();
    const last = entry.source.corrections?.at(-1);
    const words = last ? "It is something else …" : "It is …";
    return el("div", { class: "keep" },
      last ? el("span", { class: "learned" }, "Learned: it is ", el("strong", {}, breakable(last.name)), ".") : null,
      last?.undo ? el("button", { type: "button", class: "quiet", onclick: () => this.undo(entry.source) }, "Undo") : null,
      el("button", { type: "button", "aria-label": `${words} (${entry.file})`, onclick: () => this.app.doing(() => this.dialog.open(entry, actions)) }, words));
  }

  // The model learns one picture; all that are shown are asked again.
  async learn(source, name) {
    const form = new FormData();
    form.append("class", name);
    if (source.sample) form.append("sample", String(source.sample.id));
    else form.append("picture", source.file, source.file.name);
    const done = await patiently(() => postForm("/api/corrections", form));
    if (done.undo || !source.corrections?.length) (source.corrections ??= []).push({ name, undo: done.undo, trained: source.sample?.in_training });
    if (source.sample) source.sample.in_training = "labelled";
    return () => this.learned(source, name, done);
  }

  async learned(source, name, done) {
    const words = ["Learned: it is ", el("strong", {}, name), done.durable ? ". " : ". It is kept until the server stops. "];
    if (!(await this.askAgain())) return;
    const now = this.grid.entries.find((entry) => entry.source === source);
    if (now && !now.error && now.class !== name) words.push(`The answer is still ${now.class}: one picture does not always change it. `);
    const undo = done.undo ? el("button", { type: "button", class: "quiet", onclick: () => this.undo(source) }, "Undo") : "";
    this.app.notice(...words, undo);
    undo && undo.focus();
  }

  undo(source) {
    const last = source.corrections?.at(-1);
    return last?.undo && this.app.doing(async () => {
      await patiently(() => postJson("/api/corrections/undo", last.undo));
      source.corrections.pop();
      if (source.sample) source.sample.in_training = last.trained;
      if (await this.askAgain()) this.app.notice("Undone: the model has forgotten that it is ", el("strong", {}, last.name), ".");
    });
  }

  // Whether it worked; if not, that is told already.
  async askAgain() {
    await this.app.refresh();
    await this.recognise(this.pictures);
    return !document.getElementById("alerts").childElementCount;
  }

  async keep(source, name) {
    const form = new FormData();
    form.append("picture", source.file, source.file.name);
    form.append("class", name);
    const kept = await postForm("/api/confirm", form);
    this.app.notice(`Kept as ${kept.class} for the next `, el("code", {}, "firstsight learn"), `: ${counted(kept.pictures, "picture")} so far.`);
  }
}

// Before the first answer: what to do, and what the words on a card will mean.
function nothingYet(words, calibrated) {
  const kinds = [["seen", "Training had pictures of the class."], ["unseen", "The model knows the class by its description only."], ["none", "It looks like nothing that the model has seen."]];
  return el("div", { class: "empty" }, el("p", {}, words),
    el("dl", {}, kinds.slice(0, calibrated ? 3 : 2).map(([kind, meaning]) => [el("dt", {}, chip(kind)), el("dd", {}, meaning)])));
}

function* batches(pictures, limits) {
  let batch = [], bytes = 0;
  for (const picture of pictures) {
    if (batch.length && (batch.length >= Math.min(AT_ONCE, limits.pictures) || bytes + picture.file.size > limits.request_bytes * 0.9)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(picture);
    bytes += picture.file.size;
  }
  yield batch;
}
