// The records of a topic: from the end, the beginning, an offset, a moment; as they come; one whole; as a file.

import { ask, bytes, count, hexed, html, indented, pathOf, time, useEffect, useRef, useState } from "./core.js";
import { Change } from "./parts.js";

const MOST = 500;

export const Records = ({ topic, total, query }) => {
  const [want, setWant] = useState({ place: "latest", partition: query.partition || "", limit: "50" });
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  const [busy, setBusy] = useState(false);
  const [live, setLive] = useState(false);
  const [watches, setWatches] = useState(false);
  const came = useRef([]); // while a read is under way, which does not bring it
  const asked = () => {
    const { place, at, when, ...rest } = want;
    const moment = place === "time" ? String(new Date(when || Date.now()).getTime()) : place === "offset" ? at || "0" : undefined;
    return { topic, ...rest, place, at: moment, committed: want.committed ? 1 : undefined };
  };
  const read = async () => {
    setBusy(true);
    setProblem(null);
    came.current = [];
    try {
      const { document } = await ask(pathOf("records", asked()));
      const there = new Set(document.records.map(placeOf));
      const others = came.current.filter((it) => !there.has(placeOf(it)));
      setFound({ ...document, records: [...others, ...document.records].slice(0, MOST) });
    } catch (error) {
      setProblem(error.message);
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => void read(), [topic]);
  useEffect(() => {
    if (!live) return undefined;
    let waiting = [];
    let frame = 0;
    const events = new EventSource(pathOf("tail", asked()));
    events.onmessage = ({ data }) => {
      setWatches(true);
      waiting.push(...JSON.parse(data));
      waiting = waiting.slice(-MOST);
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        const rows = waiting.reverse();
        waiting = [];
        came.current = [...rows, ...came.current].slice(0, MOST);
        if (rows.length) setFound((before) => ({ ...before, records: [...rows, ...(before?.records || [])].slice(0, MOST) }));
      });
    };
    events.onerror = () => {
      if (events.readyState === EventSource.CLOSED) {
        setProblem("records cannot be watched: the console refuses, or the cluster does not answer");
        setLive(false);
      }
    };
    return () => {
      setWatches(false);
      events.close();
      cancelAnimationFrame(frame);
    };
  }, [live, topic]);
  const set = (change) => {
    setLive(false);
    setWant({ ...want, ...change });
  };
  const bound = (name) => ({ value: want[name] || "", onInput: (event) => set({ [name]: event.target.value }) });
  return html`<form
      class="filters records"
      onSubmit=${(event) => {
        event.preventDefault();
        setLive(false);
        read();
      }}
    >
      <label>From
        <select ...${bound("place")}>
          <option value="latest">the end</option>
          <option value="earliest">the beginning</option>
          <option value="offset">an offset</option>
          <option value="time">a moment</option>
        </select>
      </label>
      ${want.place === "offset" && html`<label>Offset<input inputmode="numeric" pattern="[0-9]*" size="10" ...${bound("at")} /></label>`}
      ${want.place === "time" && html`<label>Moment<input type="datetime-local" step="0.001" ...${bound("when")} /></label>`}
      <label>Partition<input inputmode="numeric" pattern="[0-9]*" size="6" placeholder=${total ? `all ${total}` : "all"} ...${bound("partition")} /></label>
      <label>Key<input size="12" ...${bound("key")} /></label>
      ${want.key &&
      html`<label>That is<select ...${bound("match")}>
          <option value="part">a part of it</option>
          <option value="whole">the key, in its partition</option>
          <option value="anywhere">the key, in all partitions</option>
        </select></label>`}
      <label>Text<input size="16" placeholder="in key, value, headers" ...${bound("q")} /></label>
      <label>Expression<input size="24" placeholder="value.click > \`10\`" title="JMESPath, of topic, partition, offset, timestamp, key, value, headers" autocomplete="off" spellcheck="false" ...${bound("where")} /></label>
      <label>At most<select ...${bound("limit")}>${["20", "50", "100", "200", "500"].map((it) => html`<option key=${it} value=${it}>${it}</option>`)}</select></label>
      <label class="check"><input type="checkbox" checked=${!!want.committed} onChange=${(event) => set({ committed: event.target.checked })} /> committed only</label>
      <button class="main" disabled=${busy}>${busy ? "Reading…" : "Read"}</button>
      <button type="button" aria-pressed=${live ? "true" : "false"} onClick=${() => setLive(!live)}>${live ? "Stop watching" : "Watch them come"}</button>
      <a class="button" href=${pathOf("export", { ...asked(), limit: 100000 })} download>Export</a>
    </form>
    ${problem && html`<p class="fault" role="alert">${problem}</p>`}
    ${live && html`<p class="quiet-text" role="status">${watches ? "Watching the end of the topic…" : "Going to the end…"}</p>`}
    ${found &&
    html`<p class="quiet-text">${count(found.records.length)} records${found.read !== undefined ? `, ${count(found.read)} read` : ""}${(found.reckoned ?? -1) < 0 ? "" : ` in partition ${found.reckoned}, where Java’s clients put this key; others may put it elsewhere`}${found.whole === false ? ": the limit was reached, narrow the search by a partition, an offset or a moment" : ""}${found.passed_over ? html`. <b>${count(found.passed_over)} could not be asked</b>: ${found.why}` : ""}</p>
      ${found.records.length === 0
        ? html`<p class="empty">No record is there, or none matches.</p>`
        : html`<ol class="recs" aria-label="Records">${found.records.map((it) => html`<${Row} key=${placeOf(it)} ...${{ topic, it }} />`)}</ol>`}`}`;
};

const placeOf = (it) => `${it.partition}-${it.offset}`;

export const oneLine = (part) => (part.kind === "null" ? "null" : part.kind === "hex" ? `0x${part.text.slice(0, 80)}` : part.text.slice(0, 300).replace(/\s+/g, " "));

const Row = ({ topic, it }) => {
  const [open, setOpen] = useState(false);
  return html`<li>
    <button class="rec" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>
      <span class="at">${it.partition}<i>:</i>${count(it.offset)}</span>
      <span class="when">${time(it.timestamp)}</span>
      <span class=${it.key.kind === "null" ? "key none" : "key"}>${oneLine(it.key)}</span>
      <span class=${it.value.kind === "null" ? "val none" : "val"}>${oneLine(it.value)}</span>
    </button>
    ${open && html`<${Whole} ...${{ topic, it }} />`}
  </li>`;
};

// Whether a form of texts has all of a record, so that the same one can be sent again.
const isText = (part) => part.kind !== "hex" && !part.schema && !part.cut && !part.text.includes("\r");
const isPlain = (it) =>
  [it.key, it.value].every((part) => part.kind === "null" || (part.size > 0 && isText(part))) &&
  it.headers_total === it.headers.length &&
  new Set(it.headers.map(([name]) => name)).size === it.headers.length &&
  it.headers.every(([name, value, cut]) => !cut && isText(value) && value.kind !== "null" && !/[=\n\r]|^\s|\s$|^$/.test(name) && !value.text.includes("\n"));

const Whole = ({ topic, it }) => {
  const where = { topic, partition: it.partition, offset: it.offset };
  const again = {
    key: it.key.kind === "null" ? "" : it.key.text,
    value: it.value.text,
    headers: it.headers.map(([name, value]) => `${name}=${value.text}`).join("\n"),
  };
  return html`<div class="whole">
    <dl>
      <dt>Partition, offset</dt><dd>${it.partition}, ${it.offset}</dd>
      <dt>Time</dt><dd>${time(it.timestamp)} <small>${it.timestamp}</small></dd>
    </dl>
    ${it.problem && html`<p class="quiet-text">By its schema it cannot be read: ${it.problem}</p>`}
    <${Part} title="Key" ...${{ part: it.key, where: { ...where, part: "key" } }} />
    <${Part} title="Value" ...${{ part: it.value, where }} />
    ${it.headers.length > 0 &&
    html`<h3>Headers${it.headers_total > it.headers.length && html` <small>the first ${it.headers.length} of ${count(it.headers_total)}</small>`}</h3><dl>${it.headers.map(([name, value], at) => html`<dt key=${`n${at}`}>${name}</dt><dd>${oneLine(value)}</dd>`)}</dl>`}
    ${isPlain(it) &&
    html`<${Change} label="Send it again" title="Send this record again" action="produce" ...${{
      fixed: { topic },
      fields: [
        { name: "key", label: "Key", optional: true, value: again.key },
        { name: "value", label: "Value", kind: "area", optional: true, value: again.value },
        { name: "headers", label: "Headers", kind: "area", pairs: true, optional: true, value: again.headers },
      ],
    }} quiet />`}
  </div>`;
};

const Part = ({ title, part, where }) => {
  const [whole, setWhole] = useState(null);
  const [as, setAs] = useState(part.kind === "null" ? "text" : part.kind);
  const [problem, setProblem] = useState(null);
  const shown = whole || part;
  if (part.kind === "null") return html`<h3>${title}</h3><p class="quiet-text">null</p>`;
  const kinds = shown.kind === "json" ? ["json", "text", "hex"] : shown.kind === "text" ? ["text", "hex"] : ["hex"];
  const kind = kinds.includes(as) ? as : kinds[0];
  const text = kind === "json" ? indented(shown.text) : kind === "hex" ? (shown.kind === "hex" ? shown.text : hexed(shown.text)).replace(/(..)/g, "$1 ") : shown.text;
  const load = () =>
    ask(pathOf("value", where))
      .then(({ document }) => setWhole(document))
      .catch((error) => setProblem(error.message));
  return html`<h3>
      ${title} <small>${bytes(part.size)}${part.schema && `, ${part.schema_kind}, schema ${part.schema}`}</small>
      ${kinds.length > 1 && kinds.map((it) => html`<button key=${it} type="button" class="kind" aria-pressed=${it === kind ? "true" : "false"} onClick=${() => setAs(it)}>${it}</button>`)}
      <a class="kind" href=${pathOf("value", { ...where, as: "file" })} download>as a file</a>
    </h3>
    <pre class="data" tabindex="0" aria-label=${title}>${text}</pre>
    ${shown.cut && html`<p class="quiet-text">${whole ? "This is the first MiB: take it as a file for the rest." : html`This is the beginning. <button class="quiet" onClick=${load}>Load all of it</button>`}</p>`}
    ${problem && html`<p class="fault" role="alert">${problem}</p>`}`;
};
