"use strict";

// Everything is put into the page as text, never as markup.
function element(name, text, children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  for (const child of children || []) made.append(child);
  return made;
}

function resolved(schema, all) {
  const reference = schema && schema.$ref;
  return reference ? all[reference.split("/").pop()] : schema || {};
}

function example(schema, all) {
  const body = resolved(schema, all);
  if (body.type === "array") return [example(body.items, all)];
  if (body.oneOf) return { action: "pause" };
  const given = { pool: "tasks", request_id: "r1", value: 1 };
  const made = {};
  for (const name of body.required || []) made[name] = given[name] === undefined ? "" : given[name];
  return made;
}

function field(label, input) {
  return element("label", label, [input]);
}

function answers(operation) {
  const rows = Object.entries(operation.responses).map(([status, answer]) =>
    element("tr", "", [element("th", status), element("td", answer.description)]));
  return element("details", "", [element("summary", "Answers"), element("table", "", rows)]);
}

async function show(answer, place) {
  const lines = [`${answer.status} ${answer.statusText}`];
  for (const name of ["location", "retry-after"]) {
    if (answer.headers.get(name)) lines.push(`${name}: ${answer.headers.get(name)}`);
  }
  const text = await answer.text();
  let body = text;
  try {
    body = JSON.stringify(JSON.parse(text), null, 2);
  } catch (error) {
    // It is shown as it is.
  }
  place.textContent = `${lines.join("\n")}\n\n${body}`;
}

async function showStream(answer, place) {
  place.textContent = `${answer.status} ${answer.statusText}\n\n`;
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    const text = place.textContent + decoder.decode(read.value, { stream: true });
    place.textContent = text.slice(-20000);
  }
}

function form(method, path, operation, all) {
  const made = element("form");
  const inputs = new Map();
  for (const parameter of operation.parameters) {
    if (parameter.in === "header") continue;
    const input = element("input");
    input.value = parameter.name === "pool" ? "tasks" : "";
    input.required = Boolean(parameter.required);
    inputs.set(parameter, input);
    made.append(field(parameter.name, input));
  }
  let body = null;
  if (operation.requestBody) {
    body = element("textarea");
    const schema = operation.requestBody.content["application/json"].schema;
    body.value = JSON.stringify(example(schema, all), null, 2);
    made.append(field("body", body));
  }
  made.append(element("button", "Send"));
  const shown = element("pre", "");
  shown.hidden = true;
  made.append(shown);
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    let url = path;
    const query = new URLSearchParams();
    for (const [parameter, input] of inputs) {
      if (parameter.in === "path") {
        url = url.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      } else if (input.value) {
        query.set(parameter.name, input.value);
      }
    }
    const headers = {};
    const token = document.getElementById("token").value;
    if (token) headers.authorization = `Bearer ${token}`;
    if (body) headers["content-type"] = "application/json";
    shown.hidden = false;
    shown.textContent = "...";
    try {
      const asked = query.size ? `${url}?${query}` : url;
      const answer = await fetch(asked, { method, headers, body: body && body.value });
      const type = answer.headers.get("content-type") || "";
      await (type.startsWith("text/event-stream") ? showStream : show)(answer, shown);
    } catch (error) {
      shown.textContent = String(error);
    }
  });
  return made;
}

async function start() {
  const description = await (await fetch("/openapi.json")).json();
  const place = document.getElementById("operations");
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const name = element("code", `${method.toUpperCase()} ${path}`);
      const summary = element("summary", "", [name, element("span", ` ${operation.summary}`)]);
      place.append(element("details", "", [
        summary,
        element("p", operation.description),
        form(method.toUpperCase(), path, operation, description.components.schemas),
        answers(operation),
      ]));
    }
  }
}

start();
