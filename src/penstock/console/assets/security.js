// Who may do what, who logs in, who may take how much; and changes of that.

import { count, html, pathOf, useView } from "./core.js";
import { Card, Change, Fault, Page, State, Table } from "./parts.js";

const Listed = ({ title, part, columns, empty, change }) =>
  html`<${Card} title=${title} note=${part.total ? count(part.total) : ""} wide>
    ${part.problem
      ? html`<p class="empty">${part.problem}</p>`
      : html`<div class="actions">${change}</div><${Table} label=${title} empty=${empty} ...${{ columns, rows: part.rows }} />`}
  <//>`;

const quotaFields = ({ user, client, ip }, quotas) => [
  { name: "user", label: "User", value: user, optional: true, hint: "<default>: all that have none of their own" },
  { name: "client", label: "Client id", value: client, optional: true },
  { name: "ip", label: "Address", value: ip, optional: true, hint: "of connections, and of nothing else besides" },
  { name: "quotas", label: "Limits", kind: "area", pairs: true, value: quotas, hint: "a line for each: producer_byte_rate=1000000; nothing behind = removes it" },
];
const ofEntity = (it) => ({ user: it.user, client: it["client-id"], ip: it.ip });
const lines = (quotas) => Object.entries(quotas).map(([key, value]) => `${key}=${value}`).join("\n");

export const Security = () => {
  const view = useView(pathOf("security"));
  const it = view.data;
  const choose = (name, label) => ({ name, label, kind: "select", choices: it.choices[name], value: it.choices[name][0] });
  const passwordFields = (user) => [
    ...(user ? [] : [{ name: "user", label: "User" }]),
    { name: "password", label: "Password", kind: "password" },
    choose("mechanism", "Mechanism"),
  ];
  return html`<${Page} title="Security" about="Who may do what, who logs in, who may take how much. Passwords are not told.">
    <${Fault} view=${view} />
    ${it &&
    html`<div class="cards">
      <${Listed} title="Access rules" empty="There are no rules." ...${{ part: it.acls }} change=${html`<${Change}
        label="Add a rule"
        title="Add an access rule"
        action="add-acl"
        fields=${[
          { name: "principal", label: "Who", value: "User:" },
          choose("permission", "May"),
          choose("operation", "Operation"),
          choose("resource", "On"),
          { name: "name", label: "Name", hint: "* for all", when: (given) => given.resource !== "CLUSTER" },
          { ...choose("pattern", "The name is meant"), when: (given) => given.resource !== "CLUSTER" },
          { name: "host", label: "From", value: "*" },
        ]}
      />`} columns=${[
        { id: "permission", label: "", state: true },
        { id: "principal", label: "Who" },
        { id: "operation", label: "Does" },
        { id: "resource", label: "On", cell: (row) => `${row.resource.toLowerCase()} ${row.name}${row.pattern === "PREFIXED" ? "…" : ""}` },
        { id: "host", label: "From" },
        { id: "remove", label: "", cell: (row) => html`<${Change} label="Remove" title="Remove this rule" action="delete-acl" warning="What no rule allows is denied." ...${{ fixed: row }} quiet />` },
      ]} />
      <${Listed} title="Users" empty="No user logs in with a password." ...${{ part: it.users }} change=${html`<${Change} label="Add a user" title="Add a user" action="set-password" fields=${passwordFields()} />`} columns=${[
        { id: "name", label: "User" },
        { id: "mechanisms", label: "Mechanisms" },
        { id: "change", label: "", cell: (row) => html`<${Change} label="Set password" title="Another password" action="set-password" warning="Who logs in with the old one is cut off." ...${{ fixed: { user: row.name } }} fields=${passwordFields(row.name)} quiet />
          <${Change} label="Remove" title="Remove this user" action="remove-user" warning="Its sessions end." ...${{ fixed: { user: row.name } }} quiet />` },
      ]} />
      <${Listed} title="Quotas" empty="Nobody is limited." ...${{ part: it.quotas }} change=${html`<${Change} label="Set a quota" title="Set a quota" action="alter-quotas" fields=${quotaFields({}, "")} />`} columns=${[
        { id: "entity", label: "Whose", cell: (row) => Object.entries(row.entity).map(([kind, name]) => `${kind} ${name}`).join(", ") },
        { id: "quotas", label: "Limits", cell: (row) => Object.entries(row.quotas).map(([key, value]) => `${key} ${value.toLocaleString("en")}`).join(", ") },
        { id: "change", label: "", cell: (row) => html`<${Change} label="Change" title="Change a quota" action="alter-quotas" ...${{ fields: quotaFields(ofEntity(row.entity), lines(row.quotas)) }} quiet />` },
      ]} />
    </div>`}
  <//>`;
};
