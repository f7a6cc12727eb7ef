// The frame: who is there, where to go, and the page that is shown.

import { ask, html, openStream, place, post, render, session, useEffect, useState, useStreamState, to } from "./core.js";
import { Overview, Broker } from "./cluster.js";
import { Group, Groups } from "./groups.js";
import { Connect, Moves, Pipelines, Schema, Schemas } from "./others.js";
import { Security } from "./security.js";
import { Said } from "./parts.js";
import { Topic, Topics } from "./topics.js";

const PAGES = {
  overview: Overview,
  broker: Broker,
  topics: Topics,
  topic: Topic,
  groups: Groups,
  group: Group,
  moves: Moves,
  security: Security,
  connect: Connect,
  pipelines: Pipelines,
  schemas: Schemas,
  schema: Schema,
};
const LINKS = [
  ["overview", "Overview", ["broker"]],
  ["topics", "Topics", ["topic"]],
  ["groups", "Groups", ["group"]],
  ["moves", "Replicas", []],
  ["security", "Security", []],
  ["pipelines", "Pipelines", [], "has_worker"],
  ["connect", "Connect", [], "has_worker"],
  ["schemas", "Schemas", ["schema"], "has_registry"],
];

const themes = ["system", "light", "dark"];
const setTheme = (theme) => {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
};

const Frame = () => {
  const [here, setHere] = useState(place());
  const [theme, set] = useState(localStorage.getItem("theme") || "system");
  const down = useStreamState();
  useEffect(() => {
    const move = () => setHere(place());
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  const Shown = PAGES[here.page];
  const next = themes[(themes.indexOf(theme) + 1) % themes.length];
  return html`<a class="skip" href="#main" onClick=${(event) => {
      event.preventDefault();
      document.querySelector("h1")?.focus();
    }}>Skip to the content</a>
    <aside>
      <a class="brand" href="#/"><img src="icon.svg" alt="" width="26" height="26" /><span>Penstock</span></a>
      <nav aria-label="Pages">
        ${LINKS.filter(([, , , needs]) => !needs || session[needs]).map(
          ([page, label, below]) =>
            html`<a key=${page} href=${to(page)} aria-current=${here.page === page || below.includes(here.page) ? "page" : undefined}>${label}</a>`,
        )}
      </nav>
      <div class="foot">
        <span class="where">${session.bootstrap_servers}</span>
        ${session.read_only && html`<span class="state">read-only</span>`}
        <button class="quiet" onClick=${() => (setTheme(next), set(next))}>Colours: ${theme}</button>
        ${session.has_users && html`<button class="quiet" onClick=${() => post("/api/logout", {}).then(() => location.reload())}>Log out ${session.user}</button>`}
        <a href="docs/">Documentation</a>
        <small>${session.version}</small>
      </div>
    </aside>
    <main id="main">
      ${down && html`<p class="fault" role="alert">The console does not answer; what is below was so before. It goes on by itself.</p>`}
      ${Shown ? html`<${Shown} key=${here.page} ...${{ query: here.query }} />` : html`<h1>There is no such page</h1>`}
    </main>
    <${Said} />`;
};

const Login = () => {
  const [problem, setProblem] = useState("");
  const enter = async (event) => {
    event.preventDefault();
    const form = event.target;
    try {
      await post("/api/login", { user: form.user.value, password: form.password.value });
      location.reload();
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<main class="login">
    <form onSubmit=${enter}>
      <h1><img src="icon.svg" alt="" width="32" height="32" /> Penstock</h1>
      <label>User<input name="user" autocomplete="username" required /></label>
      <label>Password<input name="password" type="password" autocomplete="current-password" required /></label>
      ${problem && html`<p class="fault" role="alert">${problem}</p>`}
      <button class="main">Log in</button>
    </form>
  </main>`;
};

setTheme(localStorage.getItem("theme") || "system");
const root = document.getElementById("app");
try {
  Object.assign(session, (await ask("/api/session")).document);
  if (session.user === null) render(html`<${Login} />`, root);
  else {
    openStream();
    render(html`<${Frame} />`, root);
  }
} catch (error) {
  render(html`<p class="fault" role="alert">${error.message}</p>`, root);
}
