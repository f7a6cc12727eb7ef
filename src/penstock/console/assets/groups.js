// Groups, and one group: who reads what, and how far behind.

import { count, html, pathOf, replace, time, to, useView } from "./core.js";
import { LIMIT, Card, Change, Chart, Fault, Lag, Order, Page, Pager, Search, State, Table } from "./parts.js";

export const Groups = ({ query }) => {
  const sort = query.sort || "name";
  const view = useView(pathOf("groups", { q: query.q, sort, desc: query.desc, from: query.from, limit: LIMIT }));
  const go = (change) => replace("groups", { ...query, from: undefined, ...change });
  const columns = [
    { id: "name", label: "Group", sorts: true, link: "group" },
    { id: "state", label: "State", sorts: true, state: true },
    { id: "type", label: "Kind", tight: true, cell: (row) => [row.type, row.protocol !== "consumer" && row.protocol].filter(Boolean).join(", ") || "–" },
    { id: "topics", label: "Topics" },
    { id: "lag", label: "Lag", number: true, sorts: true, cell: (row) => html`<${Lag} ...${{ row }} />` },
  ];
  return html`<${Page} title="Groups">
    <div class="filters">
      <${Search} label="Search groups" ...${{ value: query.q }} onSearch=${(q) => go({ q })} />
      ${view.data && html`<span class="quiet-text">${count(view.data.total)} groups</span><${Order} ...${{ data: view.data }} />`}
    </div>
    <${Fault} view=${view} />
    ${view.data &&
    html`<${Table} label="Groups" empty="There is no such group." ...${{ columns, rows: view.data.groups, sort, desc: query.desc, rowKey: (row) => row.name }} onSort=${(id) => go({ sort: id, desc: sort === id ? (query.desc ? undefined : 1) : id === "lag" ? 1 : undefined })} />
      <${Pager} from=${view.data.from} limit=${LIMIT} total=${view.data.total} onMove=${(from) => go({ from })} />`}
  <//>`;
};

const whole = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));

export const Group = ({ query }) => {
  const { name } = query;
  const view = useView(pathOf("group", { name, from: query.from, limit: LIMIT }));
  const it = view.data;
  const topics = it ? [...new Set(it.offsets.map((row) => row.topic))] : [];
  const actions =
    it &&
    html`${topics.length > 0 &&
      it.protocol !== "share" &&
      html`<${Change}
        label="Reset offsets"
        title="Reset offsets"
        action="reset-offsets"
        warning="The group must have no members. It reads from there when it comes back."
        ...${{
          fixed: { group: name },
          fields: [
            { name: "topic", label: "Topic", kind: "select", choices: topics, value: topics[0] },
            { name: "to", label: "To", kind: "select", choices: ["earliest", "latest", "offset", "time"], value: "earliest" },
            { name: "at", label: "Offset", value: "0", when: (given) => given.to === "offset" },
            { name: "moment", label: "Moment", kind: "datetime-local", as: "at", when: (given) => given.to === "time" },
          ],
        }}
      />`}
      <${Change} label="Delete" title="Delete this group" action="delete-group" warning="Its offsets are gone then." ...${{ fixed: { group: name } }} onDone=${() => (location.hash = "#/groups")} quiet />`;
  const about = it && [it.assignor && `assigned by ${it.assignor}`, it.coordinator !== null && `coordinated by broker ${it.coordinator}`].filter(Boolean).join(" · ");
  return html`<${Page} title=${name || ""} ...${{ about, actions }}>
    <${Fault} view=${view} />
    ${it?.problem && html`<p class="fault">${it.problem}</p>`}
    ${it &&
    html`<div class="tiles">
        <div class="tile"><b><${State} text=${it.state} /></b><span>state</span></div>
        <div class="tile"><b>${count(it.lag)}</b><span>records behind</span></div>
        <div class="tile"><b>${count(it.members_total)}</b><span>members</span></div>
        <div class="tile"><b>${count(it.total)}</b><span>partitions</span></div>
      </div>
      <div class="cards">
        <${Card} title="Lag" note="of the last hour" wide><${Chart} label="Lag" whole ...${{ times: it.history.times, unit: whole, lines: [{ label: "records behind", values: it.history.lag }] }} /><//>
        <${Card} title="Members" wide
          ><${Table}
            label="Members"
            empty="Nobody is in this group now."
            columns=${[
              { id: "client", label: "Client" },
              { id: "host", label: "Host", cell: (row) => html`<code>${row.host}</code>` },
              { id: "partitions", label: "Partitions", number: true, cell: (row) => row.partitions },
              { id: "topics", label: "Topics" },
              { id: "id", label: "Member", cell: (row) => html`<small>${row.instance ? `${row.instance} (static)` : row.id}</small>` },
            ]}
            ...${{ rows: it.members, rowKey: (row) => row.id }}
        /><//>
        ${it.rebalances &&
        html`<${Card} title="Why it rebalanced" note="the newest first" wide>
          ${it.awaited.map(
            (one) =>
              html`<p class="warning" key=${one.member}>Waits for ${one.member} ${one.what}${one.since && `, since ${time(one.since)}`}${one.until && `; it is out at ${time(one.until)}`}.</p>`,
          )}
          <${Table}
            label="Why it rebalanced"
            empty="Nobody has come or gone."
            columns=${[
              { id: "epoch", label: "Epoch", number: true, cell: (row) => row.epoch },
              { id: "began", label: "Began", cell: (row) => time(row.began) },
              { id: "took", label: "Took", number: true, cell: (row) => (row.took_ms === null ? "not over" : `${count(row.took_ms)} ms`) },
              { id: "members", label: "Members", number: true },
              { id: "moved", label: "Moved", number: true },
              { id: "why", label: "Why" },
              { id: "slowest", label: "Slowest", cell: (row) => (row.slowest ? html`<small>${row.slowest}</small> ${count(row.slowest_ms)} ms` : "–") },
            ]}
            ...${{ rows: it.rebalances, rowKey: (row) => row.number }}
          />
        <//>`}
        <${Card} title="Offsets" note="the furthest behind first" wide
          ><${Table}
            label="Offsets"
            empty="It has committed nothing."
            columns=${[
              { id: "topic", label: "Topic", link: "topic" },
              { id: "partition", label: "Partition", number: true, cell: (row) => row.partition },
              { id: "committed", label: "Committed", number: true },
              { id: "end", label: "End", number: true },
              { id: "lag", label: "Lag", number: true, cell: (row) => html`<b>${count(row.lag)}</b>` },
              { id: "client", label: "Read by" },
            ]}
            ...${{ rows: it.offsets, rowKey: (row) => `${row.partition} ${row.topic}` }} /><${Pager} from=${Number(query.from || 0)} limit=${LIMIT} total=${it.total} onMove=${(from) => replace("group", { ...query, from })}
        /><//>
      </div>`}
  <//>`;
};
