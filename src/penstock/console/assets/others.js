// Where replicas go, who may do what, what connectors do.

import { bytes, count, html, pathOf, to, useEffect, useState, ask, useView } from "./core.js";
import { Card, Change, Fault, Page, State, Table } from "./parts.js";

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

const Listed = ({ title, part, columns, empty }) =>
  html`<${Card} title=${title} note=${part.total ? count(part.total) : ""} wide>
    ${part.problem ? html`<p class="empty">${part.problem}</p>` : html`<${Table} label=${title} empty=${empty} ...${{ columns, rows: part.rows }} />`}
  <//>`;

export const Security = () => {
  const view = useView(pathOf("security"));
  const it = view.data;
  return html`<${Page} title="Security" about="Who may do what, who logs in, who may take how much. Passwords are not told.">
    <${Fault} view=${view} />
    ${it &&
    html`<div class="cards">
      <${Listed} title="Access rules" empty="There are no rules." ...${{ part: it.acls }} columns=${[
        { id: "permission", label: "", cell: (row) => html`<${State} text=${row.permission} />` },
        { id: "principal", label: "Who", cell: (row) => row.principal },
        { id: "operation", label: "Does", cell: (row) => row.operation },
        { id: "resource", label: "On", cell: (row) => `${row.resource.toLowerCase()} ${row.name}${row.pattern === "PREFIXED" ? "…" : ""}` },
        { id: "host", label: "From", cell: (row) => row.host },
      ]} />
      <${Listed} title="Users" empty="No user logs in with a password." ...${{ part: it.users }} columns=${[
        { id: "name", label: "User", cell: (row) => row.name },
        { id: "mechanisms", label: "Mechanisms", cell: (row) => row.mechanisms.join(", ") },
      ]} />
      <${Listed} title="Quotas" empty="Nobody is limited." ...${{ part: it.quotas }} columns=${[
        { id: "entity", label: "Whose", cell: (row) => Object.entries(row.entity).map(([kind, name]) => `${kind} ${name}`).join(", ") },
        { id: "quotas", label: "Limits", cell: (row) => Object.entries(row.quotas).map(([key, value]) => `${key} ${value.toLocaleString("en")}`).join(", ") },
      ]} />
    </div>`}
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
