// Where replicas go, what connectors do, which schemas there are.

import { ask, bytes, count, html, indented, pathOf, rate, replace, time, to, useEffect, useState, useView } from "./core.js";
import { LIMIT, Card, Change, Fault, Page, Pager, Search, State, Table, link } from "./parts.js";

export const Moves = () => {
  const moves = useView(pathOf("moves"));
  const leaders = useView(pathOf("leaders"));
  const groups = useView(pathOf("storage-groups"));
  return html`<${Page} title="Replicas" about="Which are on the move, who should lead, and what replicates by consensus.">
    <div class="cards">
      <${Card} title="Moves under way" wide
        ><${Fault} view=${moves} />${moves.data &&
        html`<${Table}
          label="Moves under way"
          empty="No replica is on the move."
          columns=${[
            { id: "topic", label: "Topic", link: "topic" },
            { id: "partition", label: "Partition", number: true, cell: (row) => row.partition },
            { id: "removing", label: "From" },
            { id: "adding", label: "To" },
            { id: "progress", label: "Progress", cell: (row) => html`<progress aria-label=${`Progress of ${row.topic}-${row.partition}`} max=${Number(row.of_bytes) || 1} value=${Number(row.bytes)}></progress> ${bytes(row.bytes)} of ${bytes(row.of_bytes)}` },
          ]}
          ...${{ rows: moves.data.moves }}
        />`}<//
      >
      <${Card} title="Who should lead, and who does" wide
        ><${Fault} view=${leaders} />${leaders.data &&
        html`${leaders.data.balance?.balancing && html`<p>The balancer is at work: ${count(leaders.data.balance.moved)} moved, ${leaders.data.balance.under_way || "none"} under way.</p>`}
          <${Table}
            label="Leaders by broker"
            columns=${[
              { id: "id", label: "Broker", cell: (row) => html`<a href=${to("broker", { id: row.id })}>${row.id}</a>` },
              { id: "rack", label: "Rack" },
              { id: "should", label: "Should lead", number: true },
              { id: "does", label: "Leads", number: true },
            ]}
            ...${{ rows: leaders.data.brokers }}
          />
          <h3>Led by another than planned (${count(leaders.data.elsewhere_total)})</h3>
          <${Table}
            label="Led by another than planned"
            empty="Every partition is led by who should."
            columns=${[
              { id: "topic", label: "Topic", link: "topic" },
              { id: "partition", label: "Partition", number: true, cell: (row) => row.partition },
              { id: "leader", label: "Leader", cell: (row) => (row.leader < 0 ? "none" : row.leader) },
              { id: "should", label: "Should lead" },
              { id: "isr", label: "In sync" },
              { id: "elect", label: "", cell: (row) => html`<${Change} label=${`Let ${row.should} lead`} title=${`Let broker ${row.should} lead`} action="elect-leader" ...${{ fixed: { topic: row.topic, partition: String(row.partition) } }} quiet />` },
            ]}
            ...${{ rows: leaders.data.elsewhere }}
          />`}<//
      >
      <${Card} title="Storage groups" note="topics that replicate by consensus" wide
        ><${Fault} view=${groups} />${groups.data &&
        html`<${Table}
          label="Storage groups"
          empty="There is none."
          columns=${[
            { id: "number", label: "Group", number: true, cell: (row) => row.number },
            { id: "leader", label: "Leader", cell: (row) => (row.leader < 0 ? html`<b class="bad">none</b>` : row.leader) },
            { id: "replicas", label: "Voters" },
            { id: "isr", label: "Caught up" },
            { id: "topics", label: "Topics", cell: (row) => Object.keys(row.topics).join(", ") || "–" },
          ]}
          ...${{ rows: groups.data.groups }}
        />`}<//
      >
    </div>
  <//>`;
};

export const Connect = () => {
  const view = useView(pathOf("connect"));
  return html`<${Page} title="Connect" about=${view.data?.worker || ""}>
    <${Fault} view=${view} />
    ${view.data &&
    html`<${Table}
      label="Connectors"
      empty="There are no connectors."
      columns=${[
        { id: "name", label: "Connector" },
        { id: "type", label: "Kind" },
        { id: "state", label: "State", state: true },
        { id: "tasks", label: "Tasks", cell: (row) => row.tasks.map((task) => html`<span key=${task.id}>${task.id} <${State} text=${task.state} /> </span>`) },
        { id: "worker", label: "Worker" },
        { id: "trace", label: "Why", cell: (row) => [row.trace, ...row.tasks.map((task) => task.trace)].find(Boolean)?.split("\n")[0] || "–" },
      ]}
      ...${{ rows: view.data.connectors, rowKey: (row) => row.name }}
    />`}
  <//>`;
};

const topics = (names) => names.map((name) => html`<div key=${name}>${link("topic", name)}</div>`);

// What queries of pipelines do, of all or about one topic.
export const Queries = ({ topic, query, onMove }) => {
  const view = useView(pathOf("pipelines", { topic, from: query.from, limit: LIMIT }));
  const it = view.data;
  return html`<${Fault} view=${view} />
    ${it &&
    html`<${Table}
        label="Queries of pipelines"
        empty=${topic ? "No pipeline reads or writes this topic." : "The workers run no pipelines."}
        columns=${[
          { id: "pipeline", label: "Pipeline", cell: (row) => html`${row.pipeline}<br /><small>${row.sink}</small>` },
          { id: "state", label: "State", state: true },
          { id: "reads", label: "Reads", cell: (row) => (row.reads.length ? topics(row.reads) : "–") },
          { id: "writes", label: "Writes", link: "topic" },
          { id: "lag", label: "Behind", number: true },
          { id: "rate", label: "Rows/s", number: true, cell: (row) => rate(row.rate) },
          { id: "rows", label: "Rows in, out", number: true, cell: (row) => html`${count(row.rows_in)}<br />${count(row.rows_out)}` },
          { id: "began", label: "Last batch", tight: true, cell: (row) => (row.took_ms === null ? "–" : html`${row.began ? time(row.began).slice(0, 19) : ""}<br /><small>${count(row.took_ms)} ms</small>`) },
          { id: "restarts", label: "Restarts", number: true },
          { id: "failure", label: "Last failure", cell: (row) => (row.failure ? html`<span class="words">${row.failure}</span>` : "–") },
        ]}
        ...${{ rows: it.queries, rowKey: (row) => `${row.pipeline}: ${row.sink}` }}
      />
      ${onMove && html`<${Pager} from=${it.from} limit=${LIMIT} total=${it.total} onMove=${onMove} />`}`}`;
};

export const Pipelines = ({ query }) =>
  html`<${Page} title="Pipelines" about="Each sink is a query: how far it is behind was so at the end of its last batch.">
    <${Queries} ...${{ query }} onMove=${(from) => replace("pipelines", { from })} />
  <//>`;

// The registry is asked when a page is opened, and not again by itself.
const useAsked = (path, turn) => {
  const [view, set] = useState({ loading: true });
  useEffect(() => {
    let over = false;
    ask(path)
      .then(({ document: data }) => !over && set({ data }))
      .catch((error) => !over && set((before) => ({ data: before.data, error: error.message })));
    return () => (over = true);
  }, [path, turn]);
  return view;
};

const kinds = ["AVRO", "JSON", "PROTOBUF"];
const Register = ({ label, fixed, fields, onDone }) =>
  html`<${Change}
    label=${label}
    title=${label}
    action="register-schema"
    ...${{ fixed, fields: [...fields, { name: "schema", label: "Text", kind: "area" }] }}
    warning="It is checked against the latest version first."
    onDone=${onDone}
  />`;

const SUBJECT = [
  { name: "subject", label: "Subject" },
  { name: "kind", label: "Kind", kind: "select", choices: kinds, value: kinds[0] },
];

export const Schemas = ({ query }) => {
  const [turn, next] = useState(0);
  const view = useAsked(pathOf("subjects", { q: query.q, from: query.from, limit: LIMIT }), turn);
  const it = view.data;
  const actions = html`<${Register} label="Register a schema" ...${{ fields: SUBJECT }} onDone=${() => next(turn + 1)} />`;
  return html`<${Page} title="Schemas" about=${it?.registry || ""} actions=${actions}>
    <div class="filters"><${Search} label="Search subjects" ...${{ value: query.q }} onSearch=${(q) => replace("schemas", { q })} /></div>
    <${Fault} view=${view} />
    ${it &&
    html`<${Table}
        label="Subjects"
        empty="No subject has such a name."
        columns=${[{ id: "name", label: "Subject", cell: (name) => link("schema", name) }]}
        ...${{ rows: it.subjects, rowKey: (name) => name }}
      />
      <${Pager} from=${it.from} limit=${LIMIT} total=${it.total} onMove=${(from) => replace("schemas", { ...query, from })} />`}
  <//>`;
};

export const Schema = ({ query }) => {
  const [turn, next] = useState(0);
  const view = useAsked(pathOf("subject", { name: query.name }), turn);
  const it = view.data;
  const actions = html`<${Register} label="New version" ...${{ fixed: { subject: query.name }, fields: [] }} onDone=${() => next(turn + 1)} />`;
  return html`<${Page} title=${query.name || ""} about=${it ? `${it.kind}, version ${it.version} of ${it.versions.length}, id ${it.id}` : ""} actions=${actions}>
    <${Fault} view=${view} />
    ${it &&
    html`<pre class="data" tabindex="0" aria-label="Schema">${it.kind === "PROTOBUF" ? it.schema : indented(it.schema)}</pre>
      ${it.references.length > 0 && html`<p class="quiet-text">It refers to ${it.references.join(", ")}</p>`}`}
  <//>`;
};
