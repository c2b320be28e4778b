// Asks the server, with the log-in, which is kept until the tab is closed; runs what asks again and again, and says
// when the server does not answer.

const TRY_AGAIN_MILLIS_MAX = 15000;
const KEPT = "keyspan.authorization";

export const at = (id) => document.getElementById(id);

let authorization = sessionStorage.getItem(KEPT);
let refusedWith = () => {};

/** The log-in is not that of an operator. */
export class Refused extends Error {}

export const isKnown = () => authorization !== null;
export const whenRefused = (run) => (refusedWith = run);

export function remember(given) {
  authorization = given;
  if (given === null) sessionStorage.removeItem(KEPT);
  else sessionStorage.setItem(KEPT, given);
}

export async function ask(path, method = "GET") {
  const headers = { "X-Keyspan": "console" };
  if (authorization) headers.Authorization = authorization;
  const answer = await fetch(path, { method, headers, credentials: "omit", cache: "no-store" });
  if (answer.status === 401) throw new Refused();
  if (!answer.ok) throw new Error(`The server answers ${answer.status}: ${(await answer.text()).trim()}`);
  return answer.json();
}

export function tell(trouble) {
  at("trouble").textContent = trouble;
  at("trouble").hidden = !trouble;
}

// Several loops ask at a time: what one could not do is said until that one can.
const troubles = new Map();
const tellAll = () => tell([...troubles.values()][0] ?? "");

/**
 * A task that runs now and again. While the server does not answer it runs more and more rarely; a start or a stop ends
 * what is under way, which `isCurrent` tells to it.
 */
export class Loop {
  #turn = 0;
  #timer = 0;
  #failures = 0;

  constructor(task, millis) {
    this.task = task;
    this.millis = millis;
  }

  stop() {
    this.#turn += 1;
    clearTimeout(this.#timer);
    troubles.delete(this);
  }

  start() {
    this.stop();
    const turn = this.#turn;
    const isCurrent = () => turn === this.#turn;
    const step = async () => {
      let next = this.millis;
      try {
        await this.task(isCurrent);
        if (!isCurrent()) return;
        this.#failures = 0;
        troubles.delete(this);
      } catch (error) {
        if (!isCurrent()) return;
        if (error instanceof Refused) return refusedWith("Name, password or token are not those of an operator.");
        this.#failures += 1;
        next = Math.min(1000 * 2 ** Math.min(this.#failures, 5), TRY_AGAIN_MILLIS_MAX);
        const why = error instanceof TypeError ? "The server does not answer" : error.message;
        troubles.set(this, `${why}. What is shown is old. Trying again in ${next / 1000} s.`);
      }
      tellAll();
      this.#timer = setTimeout(step, next);
    };
    step();
  }
}
