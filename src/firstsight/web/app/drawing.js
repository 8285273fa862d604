// A place to draw a letter with finger, pen or mouse, or to type one where there is neither.
import { el } from "./parts/elements.js";

const SIDE = 288;
const INK = "#111111", PAPER = "#ffffff"; // what the model looks at does not change with the page's colours

export function drawingPad(onPicture) {
  const canvas = el("canvas", { class: "pad", width: SIDE, height: SIDE, role: "img", "aria-label": "A place to draw a letter; or type one below" });
  const pen = canvas.getContext("2d");
  let last = null, timer = 0, empty = true;

  const clear = () => {
    clearTimeout(timer);
    pen.fillStyle = PAPER;
    pen.fillRect(0, 0, SIDE, SIDE);
    empty = true;
  };
  const send = () => {
    clearTimeout(timer);
    if (!empty) canvas.toBlob((blob) => onPicture(new File([blob], "drawing.png", { type: "image/png" })));
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
  };
  const stroke = (from, to) => {
    Object.assign(pen, { lineWidth: 19, lineCap: "round", lineJoin: "round", strokeStyle: INK });
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(to[0] + 0.01, to[1]); // a dot is a line, too
    pen.stroke();
    empty = false;
  };
  canvas.addEventListener("pointerdown", (event) => {
    clearTimeout(timer);
    canvas.setPointerCapture(event.pointerId);
    last = at(event);
    stroke(last, last);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    for (const one of event.getCoalescedEvents?.() ?? [event]) {
      const next = at(one);
      stroke(last, next);
      last = next;
    }
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => {
      if (last) timer = setTimeout(send, 700); // the mark above the letter is still to come
      last = null;
    });
  }
  const typed = el("input", { type: "text", maxlength: 2, autocomplete: "off", "aria-label": "Type a letter instead", placeholder: "é" });
  const set = () => {
    const letter = typed.value.trim();
    if (!letter) return;
    clear();
    Object.assign(pen, { fillStyle: INK, font: `${SIDE * 0.62}px "DejaVu Sans", Verdana, sans-serif`, textAlign: "center", textBaseline: "alphabetic" });
    pen.fillText(letter, SIDE / 2, SIDE * 0.74);
    empty = false;
    send();
  };
  typed.addEventListener("input", set);
  clear();
  return el("div", { class: "panel" },
    el("div", { class: "panel-head" }, el("h2", {}, "Draw a letter"), el("button", { type: "button", class: "quiet", onclick: () => { clear(); typed.value = ""; } }, "Clear")),
    canvas,
    el("div", { class: "pad-row" }, el("label", { class: "control" }, el("span", {}, "or type one"), typed), el("button", { type: "button", onclick: send }, "Recognise it")));
}
