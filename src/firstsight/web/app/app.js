// The page of `firstsight serve`: four tabs over one model. Each tab is a module with `make(root, app)` and may have `open()`.
import { el } from "./parts/elements.js";
import * as map from "./map.js";
import * as measure from "./measure.js";
import * as recognise from "./recognise.js";
import { getJson } from "./server.js";
import * as teach from "./teach.js";

const TABS = { recognise, teach, map, measure };

class App {
  model = null;
  revision = ""; // of the classes, as last heard
  opened = {}; // tab → what its module made

  // One sentence, where everybody sees it and screen readers say it.
  tell(error) {
    console.error(error);
    this.say("alerts", error.message || "Something on this page went wrong; load it again.");
  }

  notice(...words) {
    document.getElementById("alerts").replaceChildren();
    this.say("notices", ...words);
  }

  say(place, ...words) {
    const close = el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => box.remove() }, "×");
    const box = el("div", { class: `message ${place}` }, el("p", {}, words), close);
    document.getElementById(place).replaceChildren(box);
  }

  quiet() {
    document.getElementById("alerts").replaceChildren();
    document.getElementById("notices").replaceChildren();
  }

  // What a person has asked for; a refusal is told, anything else is a mistake of ours and told as well.
  async doing(work) {
    try {
      return await work();
    } catch (error) {
      this.tell(error);
      return undefined;
    }
  }

  show(name) {
    location.hash = name;
  }

  async refresh() {
    this.model = await getJson("/api/model");
    this.revision = this.model.revision;
    const { name, demo, method, classes, seen, unseen } = this.model;
    document.getElementById("about").replaceChildren(
      el("strong", {}, demo ? "Letters with accents" : name), ` knows ${classes} classes: ${seen} with labelled pictures, ${unseen} with a description only `, el("span", { class: "method" }, method));
  }

  async openTab(name) {
    for (const other of Object.keys(TABS)) {
      const tab = document.getElementById(`tab-${other}`);
      tab.setAttribute("aria-selected", String(other === name));
      tab.tabIndex = other === name ? 0 : -1;
      document.getElementById(other).hidden = other !== name;
    }
    document.title = `${document.getElementById(`tab-${name}`).textContent} · firstsight`;
    await this.doing(async () => {
      this.opened[name] ??= TABS[name].make(document.getElementById(name), this);
      await this.opened[name].open?.();
    });
  }
}

function listen(app) {
  const names = Object.keys(TABS);
  const wanted = () => names.find((name) => `#${name}` === location.hash) ?? names[0];
  for (const [place, name] of names.entries()) {
    const tab = document.getElementById(`tab-${name}`);
    tab.addEventListener("click", () => app.show(name));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = event.key === "Home" ? 0 : event.key === "End" ? names.length - 1 : step && (place + step + names.length) % names.length;
      if (next === undefined) return;
      event.preventDefault();
      app.show(names[next]);
      document.getElementById(`tab-${names[next]}`).focus();
    });
  }
  window.addEventListener("hashchange", () => { app.quiet(); app.openTab(wanted()); });
  app.openTab(wanted());
}

const app = new App();
window.addEventListener("unhandledrejection", (event) => app.tell(event.reason));
app.doing(async () => {
  await app.refresh();
  listen(app);
  document.body.dataset.ready = "yes";
});
