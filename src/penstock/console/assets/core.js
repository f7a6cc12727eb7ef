// What all pages need: texts made harmless, questions to the server, the stream of changes, addresses, numbers.

import { html as plain, useEffect, useState } from "./preact-htm.js";

export { Component, h, render, useEffect, useMemo, useRef, useState } from "./preact-htm.js";

// Texts of strangers on their way into the page: what is not seen, or turns the direction, stands as an escape.
// What has to stay as it is (the name that a component asks for) goes in an object: ...${{ name }}.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/gu;
export const show = (text) =>
  text.replace(UNSEEN, (it) => (it === "\n" || it === "\t" ? it : `\\u{${it.codePointAt(0).toString(16)}}`));
const harmless = (value) => (typeof value === "string" ? show(value) : Array.isArray(value) ? value.map(harmless) : value);
export const html = (statics, ...values) => plain(statics, ...values.map(harmless));

// Questions

export const session = { token: "", read_only: true };

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Error("the console itself does not answer: is `penstock console` still running?");
  }
  if (answer.status === 304) return null;
  const document = await answer.json().catch(() => ({ error: `HTTP ${answer.status}` }));
  if (answer.status === 401 && session.has_users && session.user) location.reload();
  if (!answer.ok) throw new Error(document.error || `HTTP ${answer.status}`);
  return { document, tag: answer.headers.get("ETag") };
}

export const post = async (path, body) =>
  (
    await ask(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Penstock-Token": session.token },
      body: JSON.stringify(body),
    })
  ).document;

const queryOf = (query = {}) => {
  const known = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return known.length ? `?${new URLSearchParams(known)}` : "";
};
export const pathOf = (name, query) => `/api/${name}${queryOf(query)}`;

// One stream of events for all tabs: who has the lock reads it and tells the others.

const heard = new Set();
const hear = (paths) => heard.forEach((listener) => listener(paths));
const states = new Set();
export const stream = { down: false };
const tellState = (down) => {
  stream.down = down;
  states.forEach((listener) => listener(down));
};

export function openStream() {
  const channel = new BroadcastChannel("penstock");
  channel.onmessage = ({ data }) => ("down" in data ? tellState(data.down) : hear(data.paths));
  const read = () => {
    const events = new EventSource("/api/events");
    const state = (down) => {
      tellState(down);
      channel.postMessage({ down });
    };
    events.onopen = () => {
      state(false);
      hear(null);
      channel.postMessage({ paths: null });
    };
    events.onerror = () => {
      state(true);
      if (events.readyState === EventSource.CLOSED) setTimeout(read, 2000);
    };
    events.onmessage = ({ data }) => {
      const paths = JSON.parse(data);
      hear(paths);
      channel.postMessage({ paths });
    };
  };
  if (!navigator.locks) return read();
  navigator.locks.request("penstock stream", () => {
    read();
    return new Promise(() => {});
  });
}

export function useStreamState() {
  const [down, set] = useState(stream.down);
  useEffect(() => {
    states.add(set);
    return () => states.delete(set);
  }, []);
  return down;
}

// A view of the server as it is now; `path` may be null. It stays alive while its page is in sight.
const RENEW_MS = 15000;

export function useView(path) {
  const [state, set] = useState({});
  useEffect(() => {
    if (!path) return undefined;
    let tag = null;
    let over = false;
    let asking = false;
    let again = false;
    const look = async () => {
      if (over || document.hidden) return;
      if (asking) {
        again = true;
        return;
      }
      asking = true;
      try {
        const found = await ask(path, tag ? { headers: { "If-None-Match": tag } } : {});
        if (over) return;
        if (found) tag = found.tag;
        set((before) => (found ? { path, data: found.document } : { path, data: before.data }));
      } catch (error) {
        tag = null;
        if (!over) set((before) => ({ path, data: before.path === path ? before.data : undefined, error: error.message }));
      } finally {
        asking = false;
        if (again) {
          again = false;
          look();
        }
      }
    };
    const listener = (paths) => (paths === null || paths.includes(path)) && look();
    heard.add(listener);
    document.addEventListener("visibilitychange", look);
    const timer = setInterval(look, RENEW_MS);
    look();
    return () => {
      over = true;
      heard.delete(listener);
      document.removeEventListener("visibilitychange", look);
      clearInterval(timer);
    };
  }, [path]);
  return state.path === path ? state : { loading: true, data: undefined };
}

// Addresses within the page: #/topic?name=clicks&tab=records

export const to = (page, query) => `#/${page}${queryOf(query)}`;

export function place() {
  const [page, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: page || "overview", query: Object.fromEntries(new URLSearchParams(query || "")) };
}

export const replace = (page, query) => {
  history.replaceState(null, "", to(page, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
};

// Numbers come as texts, with all their digits.

export const count = (text) => {
  if (text === null || text === undefined || text === "") return "–";
  try {
    return BigInt(text).toLocaleString("en");
  } catch {
    return String(text);
  }
};

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
export const bytes = (text) => {
  if (text === null || text === undefined) return "–";
  let value = Number(text);
  if (value < 0) return "–";
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
};

export const rate = (value) =>
  value === null || value === undefined ? "–" : value >= 100 || value === 0 ? Math.round(value).toLocaleString("en") : value.toFixed(1);

const two = (number, width = 2) => String(number).padStart(width, "0");
export const time = (text) => {
  const date = new Date(Number(text));
  if (Number(text) < 0 || Number.isNaN(date.getTime())) return text;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
};

// JSON with line breaks: only what is between its parts changes, so that a number keeps its digits.
export function indented(text) {
  let out = "";
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const it = text[at];
    if (quoted) {
      out += it;
      if (it === "\\") out += text[(at += 1)] ?? "";
      else if (it === '"') quoted = false;
    } else if (it === '"') {
      quoted = true;
      out += it;
    } else if (it === "{" || it === "[") {
      const end = /^\s*[}\]]/.exec(text.slice(at + 1, at + 64));
      if (end) {
        out += it + end[0].trim();
        at += end[0].length;
      } else {
        depth += 1;
        out += `${it}\n${"  ".repeat(Math.min(depth, 40))}`;
      }
    } else if (it === "}" || it === "]") {
      depth -= 1;
      out += `\n${"  ".repeat(Math.min(depth, 40))}${it}`;
    } else if (it === ",") out += `,\n${"  ".repeat(Math.min(depth, 40))}`;
    else if (it === ":") out += ": ";
    else if (!/\s/.test(it)) out += it;
  }
  return out;
}

export const hexed = (text) =>
  Array.from(new TextEncoder().encode(text), (it) => it.toString(16).padStart(2, "0")).join("");
