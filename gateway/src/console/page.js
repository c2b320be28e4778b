// The console: the log-in, the tabs, and which loops run. Each tab's file asks the server for what it shows, and nobody
// else is asked. All that comes from the server is set as text.

import { loops as advice } from "./advice.js";
import { at, isKnown, remember, tell, whenRefused } from "./ask.js";
import { loop as heat } from "./heat.js";
import { loop as running } from "./running.js";
import { loops as statements } from "./statements.js";
import { loops as store } from "./store.js";
import { loops as tenants } from "./tenants.js";

// The loops of each tab, by the name that is behind # in the address; `running` has the line about the server, too.
const TABS = {
  now: [heat],
  tenants,
  statements,
  store,
  advice,
};

let shown = null;

const named = () => {
  const name = location.hash.slice(1);
  return Object.hasOwn(TABS, name) ? name : "now";
};

function show(name) {
  if (shown !== null) TABS[shown].forEach((loop) => loop.stop());
  shown = name;
  for (const other of Object.keys(TABS)) {
    at(`${other}-tab`).setAttribute("aria-selected", String(other === name));
    at(`${other}-tab`).tabIndex = other === name ? 0 : -1;
    at(`${other}-panel`).hidden = other !== name;
  }
  TABS[name].forEach((loop) => loop.start());
}

function logOut(trouble) {
  running.stop();
  if (shown !== null) TABS[shown].forEach((loop) => loop.stop());
  shown = null;
  remember(null);
  at("inside").hidden = at("leave").hidden = true;
  at("door").hidden = false;
  at("about").textContent = "";
  tell(trouble);
  at("password").focus();
}

function logIn() {
  at("door").hidden = true;
  at("inside").hidden = at("leave").hidden = false;
  running.start();
  show(named());
}

for (const name of Object.keys(TABS)) {
  at(`${name}-tab`).addEventListener("click", () => (location.hash = name));
}
// As the pattern of tabs has it: arrows move between them, and show what they move to.
at("tabs").addEventListener("keydown", (event) => {
  const names = Object.keys(TABS);
  const place = names.indexOf(shown);
  const to = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: names.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const name = names[(to + names.length) % names.length];
  location.hash = name;
  at(`${name}-tab`).focus();
});
addEventListener("hashchange", () => shown !== null && named() !== shown && show(named()));
whenRefused(logOut);
at("leave").addEventListener("click", () => logOut(""));
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = at("token").value;
  const pair = new TextEncoder().encode(`${at("role").value}:${at("password").value}`);
  remember(token ? `Bearer ${token}` : `Basic ${btoa(String.fromCharCode(...pair))}`);
  at("password").value = at("token").value = "";
  tell("");
  logIn();
});

if (isKnown()) logIn();
else logOut("");
