// Topics, and one topic: partitions, records, readers, settings.

import { bytes, count, html, pathOf, replace, session, to, useView } from "./core.js";
import { LIMIT, Card, Change, Fault, Lag, Order, Page, Pager, Search, State, Table } from "./parts.js";
import { Configs } from "./cluster.js";
import { Import } from "./imports.js";
import { Queries } from "./others.js";
import { Records } from "./records.js";

const bad = (number) => (number > 0 ? html`<b class="bad">${count(number)}</b>` : "0");

export const Topics = ({ query }) => {
  const sort = query.sort || "name";
  const view = useView(pathOf("topics", { q: query.q, sort, desc: query.desc, internal: query.internal, from: query.from, limit: LIMIT }));
  const go = (change) => replace("topics", { ...query, from: undefined, ...change });
  const columns = [
    { id: "name", label: "Topic", sorts: true, cell: (row) => html`<a href=${to("topic", { name: row.name })}>${row.name}</a>${row.internal && html` <small>internal</small>`}` },
    { id: "partitions", label: "Partitions", number: true, sorts: true },
    { id: "replicas", label: "Copies", number: true, sorts: true, cell: (row) => row.replicas },
    { id: "bytes", label: "Size", number: true, sorts: true, cell: (row) => bytes(row.bytes) },
    { id: "under_replicated", label: "Under-replicated", number: true, sorts: true, cell: (row) => bad(row.under_replicated) },
    { id: "offline", label: "Offline", number: true, sorts: true, cell: (row) => bad(row.offline) },
    { id: "records", label: "", tight: true, cell: (row) => html`<a href=${to("topic", { name: row.name, tab: "records" })} aria-label=${`Records of ${row.name}`}>records</a>` },
  ];
  const create = html`<${Change}
    label="Create topic"
    title="Create a topic"
    action="create-topic"
    fields=${[
      { name: "topic", label: "Name" },
      { name: "partitions", label: "Partitions", hint: "empty: the broker's default", optional: true },
      { name: "replication_factor", label: "Copies of each partition", hint: "empty: the broker's default", optional: true },
      { name: "configs", label: "Settings", kind: "area", pairs: true, optional: true, hint: "a line for each: retention.ms=86400000" },
    ]}
  />`;
  return html`<${Page} title="Topics" actions=${create}>
    <div class="filters">
      <${Search} label="Search topics" ...${{ value: query.q }} onSearch=${(q) => go({ q })} />
      <label class="check"><input type="checkbox" checked=${!!query.internal} onChange=${(event) => go({ internal: event.target.checked ? 1 : undefined })} /> internal ones, too</label>
      ${view.data && html`<span class="quiet-text" role="status">${view.data.total === null ? "the first topics; all of them come in a moment, unless they are too many" : `${count(view.data.total)} topics`}</span><${Order} ...${{ data: view.data }} />`}
    </div>
    <${Fault} view=${view} />
    ${view.data &&
    html`<${Table} label="Topics" empty="No topic has such a name." ...${{ columns, rows: view.data.topics, sort, desc: query.desc, rowKey: (row) => row.name }} onSort=${(id) => go({ sort: id, desc: sort === id ? (query.desc ? undefined : 1) : id === "name" ? undefined : 1 })} />
      <${Pager} from=${view.data.from} limit=${LIMIT} total=${view.data.total} onMove=${(from) => go({ from })} />`}
  <//>`;
};

const TABS = [
  ["partitions", "Partitions"],
  ["records", "Records"],
  ["consumers", "Consumers"],
  ["configs", "Settings"],
  ["import", "Import"],
];

export const Topic = ({ query }) => {
  const { name } = query;
  const tab = query.tab || "partitions";
  const view = useView(pathOf("topic", { name, from: query.from, limit: LIMIT }));
  const it = view.data;
  const actions = html`<${Change}
      label="Send a record"
      title="Send a record"
      action="produce"
      ...${{ fixed: { topic: name } }}
      fields=${[
        { name: "key", label: "Key", optional: true, hint: "empty: none" },
        { name: "value", label: "Value", kind: "area", optional: true },
        ...(session.has_registry ? [{ name: "value_schema", label: "Value by the latest schema of", optional: true, hint: `a subject, as ${name}-value: the value is JSON then` }] : []),
        { name: "headers", label: "Headers", kind: "area", pairs: true, optional: true, hint: "a line for each: name=value" },
      ]}
    />
    <${Change} label="Delete" title="Delete this topic" action="delete-topic" warning="All its records are gone then, on all brokers." ...${{ fixed: { topic: name } }} onDone=${() => (location.hash = "#/topics")} quiet />`;
  const about = it && `${count(it.total)} partitions · ${bytes(it.bytes)}${it.under_replicated ? ` · ${it.under_replicated} under-replicated` : ""}${it.offline ? ` · ${it.offline} offline` : ""}${it.waiting === null ? "" : ` · ${count(it.waiting)} wait until they are due`}`;
  return html`<${Page} title=${name || ""} ...${{ about, actions }}>
    <${Fault} view=${view} />
    <nav class="tabs" aria-label="Of this topic">
      ${TABS.filter(([id]) => id !== "import" || !session.read_only).map(([id, label]) => html`<a key=${id} href=${to("topic", { name, tab: id })} aria-current=${tab === id ? "true" : undefined}>${label}</a>`)}
    </nav>
    ${tab === "partitions" && it && html`<${Partitions} ...${{ name, it, query }} />`}
    ${tab === "records" && html`<${Records} ...${{ topic: name, total: it?.total, query }} />`}
    ${tab === "consumers" && html`<${Consumers} ...${{ name }} />`}
    ${tab === "import" && html`<${Import} ...${{ topic: name }} />`}
    ${tab === "configs" && html`<${Settings} ...${{ name }} />`}
  <//>`;
};

const Partitions = ({ name, it, query }) => {
  const columns = [
    { id: "partition", label: "Partition", number: true, cell: (row) => html`<a href=${to("topic", { name, tab: "records", partition: row.partition })}>${row.partition}</a>` },
    { id: "leader", label: "Leader", cell: (row) => (row.leader < 0 ? html`<b class="bad">none</b>` : html`<a href=${to("broker", { id: row.leader })}>${row.leader}</a>`) },
    { id: "replicas", label: "Replicas" },
    { id: "isr", label: "In sync", cell: (row) => (row.isr.length < row.replicas.length ? html`<b class="bad">${row.isr.join(", ") || "none"}</b>` : row.isr.join(", ")) },
    { id: "first", label: "First offset", number: true },
    { id: "end", label: "End", number: true },
    { id: "bytes", label: "Size", number: true, cell: (row) => bytes(row.bytes) },
    {
      id: "elect",
      label: "",
      cell: (row) =>
        row.leader !== row.preferred &&
        html`<${Change} label=${`Let ${row.preferred} lead`} title=${`Let broker ${row.preferred} lead partition ${row.partition}`} action="elect-leader" ...${{ fixed: { topic: name, partition: String(row.partition) } }} quiet />`,
    },
  ];
  return html`<${Table} label="Partitions" ...${{ columns, rows: it.partitions, rowKey: (row) => row.partition }} />
    <${Pager} from=${Number(query.from || 0)} limit=${LIMIT} total=${it.total} onMove=${(from) => replace("topic", { ...query, from })} />`;
};

const Consumers = ({ name }) => {
  const view = useView(pathOf("consumers", { name }));
  return html`<${Fault} view=${view} />
    ${view.data &&
    html`<${Table}
      label="Groups that read this topic"
      empty="No group has an offset of this topic."
      columns=${[
        { id: "group", label: "Group", link: "group" },
        { id: "state", label: "State", state: true },
        { id: "partitions", label: "Partitions", number: true, cell: (row) => row.partitions },
        { id: "lag", label: "Lag", number: true, cell: (row) => html`<${Lag} ...${{ row }} />` },
      ]}
      ...${{ rows: view.data.groups }}
    />`}
    ${session.has_worker && html`<h2>Pipelines</h2><${Queries} ...${{ topic: name, query: {} }} />`}`;
};

const Settings = ({ name }) => {
  const view = useView(pathOf("configs", { name }));
  const change = (row) =>
    !row.read_only &&
    html`<${Change}
      label="Change"
      title=${`Change ${row.name}`}
      action="alter-config"
      ...${{ fixed: { topic: name, key_name: row.name }, fields: [{ name: "value_of_key", label: row.name, value: row.value ?? "", optional: true, hint: "empty: back to the default" }] }}
      quiet
    />`;
  return html`<${Fault} view=${view} />${view.data && html`<${Card}><${Configs} ...${{ rows: view.data.configs, change }} /><//>`}`;
};
