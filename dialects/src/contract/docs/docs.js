// Shows the contract of this server. Whatever is in it goes into the page as text, never as markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
let contract;

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== undefined && child !== ""));
  return made;
}

// Text in which `this` is code.
function prose(text) {
  const pieces = (text || "").split("`");
  return pieces.map((piece, at) => (at % 2 ? element("code", "", piece) : piece));
}

function resolved(thing) {
  if (!thing || !thing.$ref) return thing;
  const path = thing.$ref.replace("#/", "").split("/");
  return path.reduce((at, name) => at && at[name], contract);
}

function nameOf(schema) {
  return schema.$ref ? schema.$ref.split("/").pop() : "";
}

// In a few words: what kind of value, and within which bounds.
function kindOf(schema) {
  if (schema === true || Object.keys(schema).length === 0) return "anything";
  if (schema.$ref) return nameOf(schema);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  const choices = schema.anyOf || schema.oneOf;
  if (choices && !schema.properties) return choices.map(kindOf).join(" | ");
  if (!schema.type) return "anything";
  const types = [].concat(schema.type);
  const named = types.map((type) => (type === "array" && schema.items ? `array of ${kindOf(schema.items)}` : type));
  const bounds = [["minimum", "≥ "], ["maximum", "≤ "], ["minLength", "length ≥ "], ["maxLength", "length ≤ "]];
  const said = bounds.filter(([bound]) => schema[bound]).map(([bound, sign]) => sign + schema[bound]);
  return [named.join(" | "), ...said].join(", ");
}

function member(name, schema, isRequired, about) {
  const kind = element("span", "type", kindOf(schema));
  const must = isRequired ? element("span", "required", " required") : "";
  const words = about || schema.description || "";
  const line = element("li", "", element("code", "", name), " ", kind, must);
  if (words) line.append(element("br"), ...prose(words));
  const inner = [schema, ...(schema.anyOf || []), schema.items].find((part) => part && part.$ref);
  if (inner) line.append(folded(inner));
  return line;
}

// The members of a schema; those of schemas it refers to only when somebody opens them.
function members(schema) {
  const whole = resolved(schema);
  const choices = whole.anyOf || whole.oneOf;
  if (whole.items) return members(whole.items);
  if (whole["x-data"]) return members(whole["x-data"]);
  if (!whole.properties && choices) {
    return element("div", "", ...choices.filter((choice) => choice.type !== "null").map(titled));
  }
  const required = whole.required || [];
  const list = element("ul", "members");
  for (const [name, part] of Object.entries(whole.properties || {})) {
    list.append(member(name, part === true ? {} : part, required.includes(name)));
  }
  return list.children.length ? list : element("div", "type", kindOf(whole));
}

function titled(schema) {
  const whole = resolved(schema);
  const title = nameOf(schema) || kindOf(schema);
  const about = schema.$ref ? prose(whole.description) : [];
  return element("div", "", element("code", "", title), " ", ...about, members(schema));
}

function folded(schema) {
  const fold = element("details", "", element("summary", "type", nameOf(schema)));
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.children.length === 1) fold.append(members(schema));
  });
  return fold;
}

function parameters(operation) {
  const all = (operation.parameters || []).map(resolved);
  if (!all.length) return "";
  const list = element("ul", "members");
  for (const one of all) {
    const line = member(one.name, one.schema, one.required, one.description);
    line.querySelector(".type").prepend(`${one.in}, `);
    list.append(line);
  }
  return element("div", "", element("h3", "", "Parameters"), list);
}

function body(operation) {
  if (!operation.requestBody) return "";
  const parts = Object.entries(operation.requestBody.content).map(([kind, content]) =>
    element("div", "", element("span", "type", kind), " ", titled(content.schema)));
  return element("div", "", element("h3", "", "Body"), ...parts);
}

function answers(operation) {
  const all = Object.entries(operation.responses).map(([status, answer]) => {
    const shapes = Object.entries(answer.content || {}).map(([kind, content]) =>
      element("div", "", element("span", "type", kind), " ", titled(content.schema)));
    const headers = Object.keys(answer.headers || {}).filter((name) => name !== "X-Request-ID");
    const said = headers.length ? element("div", "type", `headers: ${headers.join(", ")}`) : "";
    const fold = shapes.length ? element("details", "", element("summary", "type", "shape"), ...shapes) : "";
    if (fold && Number(status) < 300) fold.open = true;
    return element("div", "answer", element("b", "", status), " ", ...prose(answer.description), said, fold);
  });
  return element("div", "", element("h3", "", "Answers"), ...all);
}

function operationOf(path, method, operation) {
  const summary = element("summary", "", element("span", `method ${method}`, method),
    element("span", "path", path), element("span", "what", operation.summary));
  const shown = element("details", "operation", summary);
  shown.id = operation.operationId;
  const about = [path, method, operation.summary, operation.description, operation.operationId,
    operation.tags, Object.keys(operation.responses)];
  shown.dataset.words = about.flat().join(" ").toLowerCase();
  shown.addEventListener("toggle", () => {
    if (!shown.open || shown.children.length > 1) return;
    const text = operation.description ? element("p", "", ...prose(operation.description)) : "";
    const parts = [text, parameters(operation), body(operation), answers(operation)];
    shown.append(element("div", "inside", ...parts));
  });
  return shown;
}

function show() {
  const main = document.getElementById("operations");
  const contents = document.getElementById("contents");
  document.getElementById("version").textContent = contract.info.version;
  main.replaceChildren(element("p", "", ...prose(contract.info.description)));
  for (const tag of contract.tags) {
    const section = element("section", "", element("h2", "", tag.name), element("p", "", ...prose(tag.description)));
    const links = element("section", "", element("h2", "", tag.name));
    for (const [path, methods] of Object.entries(contract.paths)) {
      for (const method of METHODS.filter((method) => methods[method]?.tags.includes(tag.name))) {
        const operation = methods[method];
        section.append(operationOf(path, method, operation));
        const link = element("a", "", element("span", `method ${method}`, method), " ", operation.summary);
        link.href = `#${operation.operationId}`;
        link.dataset.of = operation.operationId;
        links.append(link);
      }
    }
    main.append(section);
    contents.append(links);
  }
}

// Every word has to be somewhere in an operation for it to stay.
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const operation of document.querySelectorAll("details.operation")) {
    operation.hidden = !words.every((word) => operation.dataset.words.includes(word));
    const link = document.querySelector(`a[data-of="${operation.id}"]`);
    if (link) link.hidden = operation.hidden;
  }
  for (const section of document.querySelectorAll("main > section, nav > section")) {
    section.hidden = !section.querySelector("details.operation:not([hidden]), a:not([hidden])");
  }
}

function openNamed() {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named && named.classList.contains("operation")) {
    named.open = true;
    named.scrollIntoView();
  }
}

async function start() {
  try {
    const answer = await fetch("openapi.json");
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    contract = await answer.json();
    show();
    openNamed();
  } catch (error) {
    document.getElementById("operations").replaceChildren(`The contract could not be shown: ${error.message}`);
  }
}

document.getElementById("search").addEventListener("input", (event) => search(event.target.value));
window.addEventListener("hashchange", openNamed);
start();
