// The first page, and one broker.

import { bytes, count, html, pathOf, rate, to, useView } from "./core.js";
import { Card, Chart, Fault, Page, State, Table } from "./parts.js";

const Tile = ({ label, value, alarm, href }) =>
  html`<a class=${alarm ? "tile alarm" : "tile"} href=${href}><b>${value}</b><span>${label}</span></a>`;

const per = (value) => `${rate(value)}/s`;
const bytesPer = (value) => (value === null || value === undefined ? "–" : `${bytes(value)}/s`);

const Problems = ({ problems }) =>
  [
    ["offline", "Offline partitions", "nobody leads them: nothing can be read or written"],
    ["under_replicated", "Under-replicated partitions", "a replica is not in sync"],
  ].map(
    ([kind, title, note]) =>
      problems[kind].count > 0 &&
      html`<${Card} key=${kind} title=${`${title} (${count(problems[kind].count)})`} note=${note} wide>
        <${Table}
          label=${title}
          columns=${[
            { id: "topic", label: "Topic", link: "topic" },
            { id: "partition", label: "Partition", number: true, cell: (row) => row.partition },
            { id: "replicas", label: "Replicas" },
            { id: "isr", label: "In sync" },
            { id: "missing", label: "Not in sync", cell: (row) => html`<b class="bad">${row.replicas.filter((it) => !row.isr.includes(it)).join(", ") || "–"}</b>` },
          ]}
          ...${{ rows: problems[kind].partitions.slice(0, 20) }}
        />
      <//>`,
  );

const BROKERS = [
  { id: "id", label: "Broker", cell: (row) => html`<a href=${to("broker", { id: row.id })}>${row.id}</a>` },
  { id: "address", label: "Address", cell: (row) => html`<code>${row.address}</code>` },
  { id: "rack", label: "Rack" },
  { id: "state", label: "State", state: true },
  { id: "lease", label: "Lease", state: true },
  { id: "leads", label: "Leads", number: true },
  { id: "holds", label: "Replicas", number: true },
];

export const Overview = () => {
  const view = useView(pathOf("overview"));
  const quorum = useView(pathOf("quorum"));
  const behind = useView(pathOf("groups", { sort: "lag", desc: 1, limit: 5 }));
  const it = view.data;
  return html`<${Page} title="Overview" about=${it && `Cluster ${it.cluster_id}`}>
    <${Fault} view=${view} />
    ${it &&
    html`<${Silent} brokers=${it.brokers} />
      <div class="tiles">
        <${Tile} label="brokers in service" value=${`${it.brokers.filter((one) => one.state === "in service").length} of ${it.brokers.length}`} alarm=${it.brokers.some((one) => one.state !== "in service")} href="#/" />
        <${Tile} label="topics" value=${count(it.topics)} href="#/topics" />
        <${Tile} label="partitions" value=${count(it.partitions)} href=${to("topics", { sort: "partitions", desc: 1 })} />
        <${Tile} label="groups" value=${count(it.groups)} href="#/groups" />
        <${Tile} label="under-replicated" value=${count(it.problems.under_replicated.count)} alarm=${it.problems.under_replicated.count > 0} href=${to("topics", { sort: "under_replicated", desc: 1, internal: 1 })} />
        <${Tile} label="offline" value=${count(it.problems.offline.count)} alarm=${it.problems.offline.count > 0} href=${to("topics", { sort: "offline", desc: 1, internal: 1 })} />
      </div>
      <div class="cards">
        ${it.rates.times.length > 0 &&
        html`<${Card} title="Records"><${Chart} label="Records written per second" ...${{ times: it.rates.times, unit: per, lines: [{ label: "in", values: it.rates["records in"] }] }} /><//>
          <${Card} title="Bytes"><${Chart} label="Bytes per second" whole ...${{ times: it.rates.times, unit: bytesPer, lines: [{ label: "in", values: it.rates["bytes in"] }, { label: "out", values: it.rates["bytes out"] }] }} /><//>`}
        <${Problems} problems=${it.problems} />
        <${Card} title="Brokers" wide><${Table} label="Brokers" columns=${BROKERS} ...${{ rows: it.brokers }} /><//>
        <${Card} title="Groups furthest behind"
          ><${Fault} view=${behind} />${behind.data &&
          html`<${Table}
            label="Groups furthest behind"
            empty="No group has an offset."
            columns=${[
              { id: "name", label: "Group", link: "group" },
              { id: "state", label: "State", state: true },
              { id: "lag", label: "Lag", number: true },
            ]}
            ...${{ rows: behind.data.groups.filter((row) => row.lag !== null) }}
          />`}<//
        >
        <${Card} title="Controllers" note=${`active: ${it.controller}`}
          ><${Fault} view=${quorum} />${quorum.data &&
          html`<${Table}
            label="Replicas of the metadata log"
            columns=${[
              { id: "id", label: "Node" },
              { id: "role", label: "Role", state: true },
              { id: "end", label: "Log end", number: true },
              { id: "lag", label: "Behind", number: true },
            ]}
            ...${{ rows: quorum.data.replicas }}
          />`}<//
        >
      </div>`}
  <//>`;
};

const Silent = ({ brokers }) => {
  const away = brokers.filter((one) => one.state !== "in service");
  return (
    away.length > 0 &&
    html`<p class="fault" role="alert">
      ${away.map((one) => `Broker ${one.id} ${one.state === "silent" ? "does not answer" : "is fenced"}`).join("; ")}. What it led is led by the others as soon as they are told.
    </p>`
  );
};

export const Broker = ({ query }) => {
  const view = useView(pathOf("broker", { id: query.id }));
  const it = view.data;
  return html`<${Page} title=${`Broker ${query.id}`}>
    <${Fault} view=${view} />
    ${it &&
    html`<div class="cards">
      <${Card} title="Disks" wide
        ><${Table}
          label="Log directories"
          empty="It does not answer, or may not be asked."
          columns=${[
            { id: "path", label: "Directory", cell: (row) => html`<code>${row.path}</code>` },
            { id: "error", label: "State", cell: (row) => html`<${State} text=${row.error || "online"} />` },
            { id: "partitions", label: "Partitions", number: true },
            { id: "bytes", label: "Logs", number: true, cell: (row) => bytes(row.bytes) },
            { id: "usable", label: "Free", number: true, cell: (row) => bytes(row.usable) },
            { id: "total", label: "Of", number: true, cell: (row) => bytes(row.total) },
          ]}
          ...${{ rows: it.directories }}
      /><//>
      <${Card} title="Configuration" wide><${Configs} ...${{ rows: it.configs }} /><//>
    </div>`}
  <//>`;
};

export const Configs = ({ rows, change }) =>
  html`<${Table}
    label="Configuration"
    columns=${[
      { id: "name", label: "Key", cell: (row) => html`<code ...${{ title: row.about || "" }}>${row.name}</code>` },
      { id: "value", label: "Value", cell: (row) => (row.sensitive ? html`<i>secret</i>` : html`<span class=${`${row.changed ? "changed" : ""} ${(row.value ?? "").length < 24 ? "tight" : ""}`}>${row.value ?? "–"}</span>`) },
      { id: "source", label: "From", cell: (row) => row.source.toLowerCase().replaceAll("_", " ") },
      ...(change ? [{ id: "change", label: "", cell: (row) => change(row) }] : []),
    ]}
    ...${{ rows, rowKey: (row) => row.name }}
  />`;
