// Questions to the server, and its answers; whatever goes wrong becomes one sentence.

export class Refused extends Error {
  constructor(sentence, status = 0, retryAfter = 1) {
    super(sentence);
    Object.assign(this, { status, retryAfter });
  }
}

const GONE = "The server does not answer; is it still running?";

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { "X-Firstsight": "1", ...options.headers } });
  } catch {
    throw new Refused(GONE);
  }
  if (answer.status === 401 && (await askForToken())) return ask(path, options);
  if (!answer.ok) throw new Refused(await sentenceOf(answer), answer.status, Number(answer.headers.get("Retry-After")) || 1);
  return answer;
}

async function sentenceOf(answer) {
  try {
    return String((await answer.json()).error ?? GONE);
  } catch {
    return `The server answered ${answer.status} without a word; its own output may say why.`;
  }
}

export const getJson = async (path) => (await ask(path)).json();
export const getBlob = async (path) => (await ask(path)).blob();
export const postForm = async (path, body) => (await ask(path, { method: "POST", body })).json();
export const postJson = async (path, value) =>
  (await ask(path, { method: "POST", body: JSON.stringify(value), headers: { "Content-Type": "application/json" } })).json();

// A server that is busy says when to come back; that long is waited, a few times.
export async function patiently(send, times = 5) {
  for (let left = times; ; left -= 1) {
    try {
      return await send();
    } catch (error) {
      if (error.status !== 429 || left <= 0) throw error;
      await new Promise((done) => setTimeout(done, 1000 * Math.min(10, error.retryAfter)));
    }
  }
}

// One dialog, however many questions wait for it; its answer becomes a cookie that scripts cannot read.
let asking = null;

function askForToken() {
  asking ??= new Promise((done) => {
    const dialog = document.getElementById("token");
    const value = document.getElementById("token-value");
    const told = document.getElementById("token-error");
    const form = dialog.querySelector("form");
    const leave = (right) => {
      form.onsubmit = dialog.oncancel = null;
      dialog.close();
      asking = null;
      done(right);
    };
    form.onsubmit = async (event) => {
      event.preventDefault();
      try {
        const answer = await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${value.value}`, "X-Firstsight": "1" } });
        if (answer.ok) leave(true);
        else told.textContent = await sentenceOf(answer);
      } catch {
        told.textContent = "That token cannot be sent; check it.";
      }
    };
    dialog.oncancel = () => leave(false);
    dialog.showModal();
  });
  return asking;
}
