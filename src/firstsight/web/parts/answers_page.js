import { AnswerGrid } from "./answer_cards.js";

new AnswerGrid(document.getElementById("grid")).set(JSON.parse(document.getElementById("answers").textContent));
