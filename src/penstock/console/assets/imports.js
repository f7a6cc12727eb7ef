// Records out of a file, sent piece by piece: whole lines at a time.

import { bytes, count, html, post, session, useEffect, useRef, useState } from "./core.js";
import { Table, say } from "./parts.js";
import { oneLine } from "./records.js";

const PIECE = 400_000;
const LINES = 20_000;
const MOST = 100_000_000;
const kindOf = ({ name }) => (/\.csv$/i.test(name) ? "csv" : /\.json$/i.test(name) ? "json" : "jsonl");

const [QUOTE, COMMA, RETURN, BREAK, MARK] = [34, 44, 13, 10, 0xef];

// Where the last whole line ends, and whether there are as many as go together. In CSV a line break between quotes is none, and a quote within a cell is a letter.
function wholeLines(data, kind, isFirst) {
  let [end, lines, quoted, closed, begins] = [0, 0, false, false, true];
  for (let at = isFirst && data[0] === MARK ? 3 : 0; at < data.length && lines < LINES; at += 1) {
    const it = data[at];
    const closes = quoted && it === QUOTE;
    const opens = !quoted && it === QUOTE && kind === "csv" && (begins || closed);
    quoted = opens || (quoted && !closes);
    closed = closes;
    begins = !quoted && (it === COMMA || it === RETURN || it === BREAK);
    if (it === BREAK && !quoted) [end, lines] = [at + 1, lines + 1];
  }
  return [end, lines === LINES];
}

// The mark of UTF-16 at the beginning is left to the server: elsewhere it is a character.
async function* pieces(file, kind) {
  for (let at = 0; at < file.size; ) {
    const data = new Uint8Array(await file.slice(at, at + PIECE).arrayBuffer());
    const isLast = at + data.length >= file.size;
    if (kind === "json" && !isLast) throw new Error(`An array of JSON has ${bytes(PIECE)} at most: write a line for each record.`);
    const [whole, isFull] = kind === "json" ? [0, false] : wholeLines(data, kind, at === 0);
    const end = isLast && !isFull ? data.length : whole;
    if (!end) throw new Error(`A line has more than ${bytes(PIECE)}.`);
    const part = data.subarray(0, end);
    yield { text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(part), lines: part.filter((it) => it === BREAK).length, at: (at += end) };
  }
}

export const Import = ({ topic }) => {
  const [file, setFile] = useState(null);
  const [shape, setShape] = useState("records");
  const [schema, setSchema] = useState("");
  const [typed, setTyped] = useState(""); // the page may be drawn anew before the field is left
  const [seen, setSeen] = useState(null);
  const [sent, setSent] = useState(null);
  const [problem, setProblem] = useState(null);
  const stops = useRef(false);
  const turn = useRef(0);
  const send = async (dry) => {
    const kind = kindOf(file);
    const mine = (turn.current += 1); // another file, or another shape, may be chosen while the answer is on its way
    const isOld = () => dry && mine !== turn.current;
    let [line, records, columns] = [0, 0];
    stops.current = false;
    setProblem(null);
    try {
      if (file.size > MOST) throw new Error(`A file has ${bytes(MOST)} at most: penstock produce takes larger ones.`);
      for await (const { text, lines, at } of pieces(file, kind)) {
        if (stops.current) break;
        const found = await post("/api/import", { topic, kind, shape, columns, line: String(line), text, dry, value_schema: schema });
        if (isOld()) return;
        if (dry) return void setSeen(found);
        [line, records, columns] = [line + lines, records + found.records, found.columns];
        setSent({ records, at });
      }
      say(`${count(records)} records were sent to ${topic}`);
    } catch (error) {
      if (isOld()) return;
      setProblem(error.message);
    }
    setSent((before) => before && { ...before, over: true });
  };
  useEffect(() => {
    setSeen(null);
    setSent(null);
    if (file) send(true);
  }, [file, shape, schema]);
  useEffect(() => () => (stops.current = true), []);
  // Nothing is sent by a schema before it is known what that makes of the first records.
  const choose = (subject) => subject !== schema && (setSchema(subject), setSeen(null));
  const busy = sent && !sent.over;
  return html`<form class="filters" onSubmit=${(event) => (event.preventDefault(), setSent({ records: 0, at: 0 }), send())}>
      <label>File<input type="file" accept=".jsonl,.ndjson,.json,.csv" disabled=${busy} onChange=${(event) => setFile(event.target.files[0])} /></label>
      <label>Each line is<select value=${shape} disabled=${busy} onChange=${(event) => setShape(event.target.value)}>
        <option value="records">a record: key, value, headers</option>
        <option value="values">a value</option>
      </select></label>
      ${session.has_registry && html`<label>Values by the latest schema of<input ...${{ value: typed, placeholder: `a subject, as ${topic}-value` }} autocomplete="off" disabled=${busy} onInput=${(event) => setTyped(event.target.value)} onChange=${(event) => choose(event.target.value.trim())} /></label>`}
      <button class="main" disabled=${!seen || sent}>Send them</button>
      ${busy && html`<button type="button" onClick=${() => (stops.current = true)}>Stop</button>`}
    </form>
    ${problem && html`<p class="fault" role="alert">${problem}</p>`}
    ${sent && html`<p role="status"><progress aria-label="Progress of the import" max=${file.size} value=${sent.at}></progress> ${count(sent.records)} records sent, ${bytes(sent.at)} of ${bytes(file.size)}</p>`}
    ${seen
      ? html`<h2>The first of them</h2><${Table}
          label="The first of them"
          columns=${[
            { id: "key", label: "Key", cell: (row) => oneLine(row.key) },
            { id: "value", label: "Value", cell: (row) => oneLine(row.value) },
            { id: "headers", label: "Headers", number: true },
          ]}
          ...${{ rows: seen.first }}
        />`
      : html`<p class="empty">JSON lines as an export writes them, an array of JSON, or CSV with names in its first line.</p>`}`;
};
