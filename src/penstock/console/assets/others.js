// Where replicas go, what connectors do, which schemas there are.

import { ask, bytes, count, html, indented, pathOf, replace, to, useEffect, useState, useView } from "./core.js";
import { LIMIT, Card, Change, Fault, Page, Pager, Search, State, Table } from "./parts.js";

const topicOf = (row) => html`<a href=${to("topic", { name: row.topic })}>${row.topic}</a>`;

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
            { id: "topic", label: "Topic", cell: topicOf },
            { id: "partition", label: "Partition", number: true, cell: (row) => row.partition },
            { id: "removing", label: "From", cell: (row) => row.removing.join(", ") || "–" },
            { id: "adding", label: "To", cell: (row) => row.adding.join(", ") || "–" },
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
              { id: "rack", label: "Rack", cell: (row) => row.rack || "–" },
              { id: "should", label: "Should lead", number: true, cell: (row) => count(row.should) },
              { id: "does", label: "Leads", number: true, cell: (row) => count(row.does) },
            ]}
            ...${{ rows: leaders.data.brokers }}
          />
          <h3>Led by another than planned (${count(leaders.data.elsewhere_total)})</h3>
          <${Table}
            label="Led by another than planned"
            empty="Every partition is led by who should."
            columns=${[
              { id: "topic", label: "Topic", cell: topicOf },
              { id: "partition", label: "Partition", number: true, cell: (row) => row.partition },
              { id: "leader", label: "Leader", cell: (row) => (row.leader < 0 ? "none" : row.leader) },
              { id: "should", label: "Should lead", cell: (row) => row.should },
              { id: "isr", label: "In sync", cell: (row) => row.isr.join(", ") },
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
            { id: "replicas", label: "Voters", cell: (row) => row.replicas.join(", ") },
            { id: "isr", label: "Caught up", cell: (row) => row.isr.join(", ") },
            { id: "topics", label: "Topics", cell: (row) => Object.keys(row.topics).join(", ") || "–" },
          ]}
          ...${{ rows: groups.data.groups }}
        />`}<//
      >
    </div>
  <//>`;
};

const AGAIN_MS = 5000;

export const Connect = () => {
  const [view, set] = useState({ loading: true });
  useEffect(() => {
    const look = () =>
      !document.hidden &&
      ask(pathOf("connect"))
        .then(({ document: data }) => set({ data }))
        .catch((error) => set((before) => ({ data: before.data, error: error.message })));
    look();
    const timer = setInterval(look, AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  return html`<${Page} title="Connect" about=${view.data?.worker || ""}>
    <${Fault} view=${view} />
    ${view.data &&
    html`<${Table}
      label="Connectors"
      empty="There are no connectors."
      columns=${[
        { id: "name", label: "Connector", cell: (row) => row.name },
        { id: "type", label: "Kind", cell: (row) => row.type },
        { id: "state", label: "State", cell: (row) => html`<${State} text=${row.state} />` },
        { id: "tasks", label: "Tasks", cell: (row) => row.tasks.map((task) => html`<span key=${task.id}>${task.id} <${State} text=${task.state} /> </span>`) },
        { id: "worker", label: "Worker", cell: (row) => row.worker },
        { id: "trace", label: "Why", cell: (row) => [row.trace, ...row.tasks.map((task) => task.trace)].find(Boolean)?.split("\n")[0] || "–" },
      ]}
      ...${{ rows: view.data.connectors, rowKey: (row) => row.name }}
    />`}
  <//>`;
};

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
        columns=${[{ id: "name", label: "Subject", cell: (name) => html`<a href=${to("schema", { name })}>${name}</a>` }]}
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
