// Parts of pages: tables, charts, forms for changes.

import { count, html, post, session, show, time, to, useEffect, useRef, useState } from "./core.js";

export const Page = ({ title, about, actions, children }) => {
  const head = useRef();
  useEffect(() => {
    document.title = `${title} · Penstock`;
    head.current?.focus();
  }, [title]);
  return html`<header class="head">
      <div>
        <h1 tabindex="-1" ref=${head}>${title}</h1>
        ${about && html`<p class="about">${about}</p>`}
      </div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}`;
};

export const Card = ({ title, note, children, wide }) =>
  html`<section class=${wide ? "card wide" : "card"}>
    ${title && html`<h2>${title}${note && html` <small>${note}</small>`}</h2>`}
    ${children}
  </section>`;

export const Fault = ({ view }) =>
  view.error
    ? html`<p class="fault" role="alert">${view.error}${view.data ? " · what is below was so before" : ""} · trying again</p>`
    : view.loading && html`<p class="loading" aria-busy="true">Loading…</p>`;

const CALM = new Set(["in service", "Stable", "RUNNING", "running", "done", "held", "leader", "voter", "observer", "ALLOW"]);
const WARNS = new Set(["PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "PAUSED", "fenced", "starting"]);
const ALARMS = new Set(["silent", "over", "FAILED", "failing", "failed", "Dead", "DENY"]);
export const State = ({ text }) =>
  html`<span class=${`state ${CALM.has(text) ? "calm" : WARNS.has(text) ? "warn" : ALARMS.has(text) ? "alarm" : ""}`}>
    ${text || "–"}
  </span>`;

export const link = (page, name) => html`<a href=${to(page, { name })}>${name}</a>`;

// What stands below a column, unless it says it by its own `cell`.
const plain = (it, row) => {
  const value = row[it.id];
  if (it.number) return count(value);
  const text = Array.isArray(value) ? value.join(", ") : value;
  if (text === undefined || text === null || text === "") return "–";
  return it.state ? html`<${State} ...${{ text }} />` : it.link ? link(it.link, text) : text;
};

// `columns`: { id, label, number, state, link (the page of what has this name), tight (on one line), sorts, cell: (row) => … }.
// `sort` and `onSort` where the server sorts.
export const Table = ({ label, columns, rows, empty, sort, desc, onSort, rowKey }) =>
  rows.length === 0
    ? html`<p class="empty">${empty || "Nothing here."}</p>`
    : html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
        <table>
          <thead>
            <tr>
              ${columns.map(
                (it) =>
                  html`<th
                    key=${it.id}
                    scope="col"
                    class=${it.number ? "number" : ""}
                    aria-sort=${sort === it.id ? (desc ? "descending" : "ascending") : undefined}
                  >
                    ${it.sorts && onSort
                      ? html`<button class="sort" onClick=${() => onSort(it.id)}>
                          ${it.label}<span aria-hidden="true">${sort === it.id ? (desc ? " ↓" : " ↑") : ""}</span>
                        </button>`
                      : it.label}
                  </th>`,
              )}
            </tr>
          </thead>
          <tbody>
            ${rows.map(
              (row) =>
                html`<tr ...${{ key: rowKey ? rowKey(row) : undefined }}>
                  ${columns.map((it) => html`<td class=${it.number ? "number" : it.tight ? "tight" : ""}>${it.cell ? it.cell(row) : plain(it, row)}</td>`)}
                </tr>`,
            )}
          </tbody>
        </table>
      </div>`;

// Rows on a page: a list has 500 elements at most.
export const LIMIT = 40;
export const Pager = ({ from, limit, total, onMove }) =>
  total > limit &&
  html`<nav class="pager" aria-label="Rows">
    <button disabled=${from === 0} onClick=${() => onMove(Math.max(0, from - limit))}>← Before</button>
    <span>${(from + 1).toLocaleString("en")}–${Math.min(from + limit, total).toLocaleString("en")} of ${total.toLocaleString("en")}</span>
    <button disabled=${from + limit >= total} onClick=${() => onMove(from + limit)}>After →</button>
  </nav>`;

// A lag that was so long ago says when; why it is old, or what is missing of it, is its title.
export const Lag = ({ row }) => {
  const note = [row.lag_was_so && `at ${time(row.lag_was_so)}`, row.lag_why && "not all is told"].filter(Boolean).join(", ");
  return html`${count(row.lag)}${note && html` <small class="quiet-text" title=${row.lag_why || "it is being asked for anew"}>${note}</small>`}`;
};

// The order over all pages of a list comes from a look at all of it, which is rare where that takes long.
export const Order = ({ data }) => data.order_was_so && html` <span class="quiet-text">in the order of ${time(data.order_was_so)}</span>`;

// Search that waits until the typing rests.
export const Search = ({ label, value, onSearch }) => {
  const timer = useRef();
  return html`<input
    type="search"
    class="search"
    aria-label=${label}
    placeholder=${label}
    autocomplete="off"
    ...${{ defaultValue: value || "" }}
    onInput=${(event) => {
      const text = event.target.value;
      clearTimeout(timer.current);
      timer.current = setTimeout(() => onSearch(text), 120);
    }}
  />`;
};

const HEIGHT = 150;
const [TOP, RIGHT, BOTTOM, LEFT] = [8, 14, 24, 58];
const SECONDS = [5, 10, 30, 60, 300, 600, 900, 1800, 3600];
const clock = (second, isExact) => new Date(second * 1000).toTimeString().slice(0, isExact ? 8 : 5);
const upTo = (first, last, step) => Array.from({ length: Math.max(0, Math.floor(last / step) - Math.ceil(first / step) + 1) }, (_, at) => (Math.ceil(first / step) + at) * step);

// The distance of a few round numbers up to `most`.
const roundStep = (most) => {
  const ten = 10 ** Math.floor(Math.log10(most / 3));
  return ten * [1, 2, 5, 10].find((it) => it * ten * 4 >= most);
};

const Drawn = ({ times, lines, unit, whole, width }) => {
  const [first, last] = [times[0], times.at(-1)];
  const most = Math.max(...lines.flatMap((it) => it.values), 0) * 1.1 || 1;
  const x = (second) => LEFT + (first === last ? 1 : (second - first) / (last - first)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
  const step = SECONDS.find((it) => ((last - first) / it) * 90 < width - LEFT) || 3600;
  const rows = upTo(0, most, Math.max(roundStep(most), whole ? 1 : 0));
  return html`<svg ...${{ width, height: HEIGHT }} aria-hidden="true">
    ${rows.map((it) => html`<line key=${`l${it}`} class="grid" x1=${LEFT} x2=${width - RIGHT} y1=${y(it)} y2=${y(it)} /><text key=${`t${it}`} x=${LEFT - 8} y=${y(it) + 4} text-anchor="end">${unit(it)}</text>`)}
    ${upTo(first, last, step).map((it) => html`<text key=${it} x=${Math.min(x(it), width - 28)} y=${HEIGHT - 6} text-anchor="middle">${clock(it, step < 60)}</text>`)}
    ${lines.map(({ values }, at) => {
      const known = times.map((second, place) => [second, values[place]]).filter(([, value]) => value !== null && value !== undefined);
      if (!known.length) return null;
      const path = `M${known.map(([second, value]) => `${x(second).toFixed(1)},${y(value).toFixed(1)}`).join("L")}`;
      const [[from], [until, end]] = [known[0], known.at(-1)];
      return html`<g key=${at} class=${`line-${at + 1}`}>
        ${at === 0 && html`<path class="area" d=${`${path}V${y(0)}H${x(from)}Z`} />`}
        <path d=${path} /><circle cx=${x(until)} cy=${y(end)} r="2.5" />
      </g>`;
    })}
  </svg>`;
};

// `lines`: { label, values }; `values` may have gaps. `whole`: there is nothing between 0 and 1.
export const Chart = ({ label, times, lines, unit, whole }) => {
  const place = useRef();
  const [width, setWidth] = useState(300);
  const drawn = times.length > 0;
  useEffect(() => {
    if (!drawn) return undefined;
    const sized = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    sized.observe(place.current);
    return () => sized.disconnect();
  }, [drawn]);
  const last = lines.map((it) => `${it.label} ${unit(it.values.at(-1))}`).join(", ");
  return html`<figure class="chart">
    <figcaption>
      ${lines.map((it, at) => html`<span key=${it.label} class=${`key key-${at + 1}`}>${it.label} <b>${unit(it.values.at(-1))}</b></span>`)}
    </figcaption>
    ${drawn
      ? html`<div ref=${place} class="plot" role="img" aria-label=${`${label}: ${last}`}><${Drawn} ...${{ times, lines, unit, whole, width }} /></div>`
      : html`<p class="empty">Figures come in a moment.</p>`}
  </figure>`;
};

// A change: what is asked for, the command that does the same, the name to type where something is destroyed.
// `fields`: { name, label, value, hint, kind: text | area | select, choices, optional }
export const Change = ({ label, title, action, fixed, fields = [], warning, onDone, quiet }) => {
  const dialog = useRef();
  const [given, setGiven] = useState({});
  const [preview, setPreview] = useState(null);
  const [typed, setTyped] = useState("");
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const asked = () => ({ action, ...fixed, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== "")) });
  const open = () => {
    setGiven(Object.fromEntries(fields.map((it) => [it.name, it.value ?? ""])));
    setTyped("");
    setProblem(null);
    setPreview(null);
    dialog.current.showModal();
  };
  useEffect(() => {
    if (!dialog.current?.open) return undefined;
    if (fields.some((it) => !it.optional && !(it.when && !it.when(given)) && !given[it.name])) return void setPreview(null);
    const timer = setTimeout(
      () =>
        post("/api/preview", parsed(asked(), fields))
          .then(setPreview)
          .catch(() => setPreview(null)),
      150,
    );
    return () => clearTimeout(timer);
  }, [given]);
  const apply = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const { done } = await post("/api/change", { ...parsed(asked(), fields), typed: confirms ? preview.type : typed });
      dialog.current.close();
      say(done);
      onDone?.();
    } catch (error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  if (session.read_only) return null;
  const danger = preview?.dangerous;
  // A name may have characters that nobody can type: as they are shown will do.
  const confirms = danger && (typed === preview.type || typed === show(preview.type));
  return html`<button class=${quiet ? "quiet" : ""} onClick=${open}>${label}</button>
    <dialog ref=${dialog} aria-label=${title}>
      <form onSubmit=${apply}>
        <h2>${title}</h2>
        ${warning && html`<p class="warning">${warning}</p>`}
        ${fields
          .filter((it) => !it.when || it.when(given))
          .map((it) => html`<${Field} key=${it.name} ...${{ field: it, value: given[it.name] ?? "" }} onChange=${(value) => setGiven({ ...given, [it.name]: value })} />`)}
        ${preview &&
        html`<p class="same">The same as a command:</p>
          <pre class="command" tabindex="0">${preview.command}</pre>`}
        ${danger &&
        html`<label>Type <code>${preview.type}</code> to confirm<input ...${{ value: typed }} required autocomplete="off" onInput=${(event) => setTyped(event.target.value)} /></label>`}
        ${problem && html`<p class="fault" role="alert">${problem}</p>`}
        <div class="actions">
          <button type="button" class="quiet" onClick=${() => dialog.current.close()}>Cancel</button>
          <button class=${danger ? "danger" : "main"} disabled=${busy || !preview || (danger && !confirms)}>${label}</button>
        </div>
      </form>
    </dialog>`;
};

const Field = ({ field, value, onChange }) => {
  const set = (event) => onChange(event.target.value);
  return html`<label>
    ${field.label}
    ${field.kind === "area"
      ? html`<textarea rows="5" ...${{ value }} onInput=${set}></textarea>`
      : field.kind === "select"
        ? html`<select ...${{ value }} onChange=${set}>${field.choices.map((it) => html`<option key=${it} ...${{ value: it }}>${it}</option>`)}</select>`
        : html`<input type=${field.kind || "text"} step="0.001" autocomplete="off" required=${!field.optional} ...${{ value }} onInput=${set} />`}
    ${field.hint && html`<small>${field.hint}</small>`}
  </label>`;
};

// Lines name=value become an object, a moment its milliseconds.
function parsed(asked, fields) {
  const out = { ...asked };
  for (const field of fields) {
    if (field.when && !field.when(asked)) delete out[field.name];
    else if (field.pairs && out[field.name])
      out[field.name] = Object.fromEntries(
        out[field.name].split("\n").filter(Boolean).map((line) => [line.split("=")[0].trim(), line.slice(line.indexOf("=") + 1)]),
      );
    else if (field.kind === "datetime-local" && out[field.name]) out[field.as || field.name] = String(new Date(out[field.name]).getTime());
  }
  return out;
}

// What was done is said at the foot of the page, and to those who listen.
const listeners = new Set();
export const say = (text) => listeners.forEach((it) => it(text));
export const Said = () => {
  const [text, set] = useState("");
  useEffect(() => {
    let timer;
    const listener = (it) => {
      set(it);
      clearTimeout(timer);
      timer = setTimeout(() => set(""), 8000);
    };
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return html`<div class=${text ? "said" : "said none"} role="status">${text}</div>`;
};

