// Keeps the page up to date: asks for it again, and changes what has changed.
//
// The server alone decides what the page says. Elements that stay are kept, so that focus,
// selection and what is folded stay as their reader left them.
"use strict";

const SHORTEST_WAIT = 1000; // milliseconds
const PATIENCE = 5000;
const gone = document.getElementById("gone");

function isSame(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && !one.id && !other.id;
}

function takeAttributes(element, wanted) {
  for (const { name } of [...element.attributes]) {
    if (name !== "open" && !wanted.hasAttribute(name)) {
      element.removeAttribute(name);
    }
  }
  for (const { name, value } of wanted.attributes) {
    if (name !== "open" && element.getAttribute(name) !== value) {
      element.setAttribute(name, value);
      if (name === "data-wanted") {
        element.open = value === "open"; // there is news in what was folded
      }
    }
  }
}

function become(element, wanted) {
  if (element.nodeType !== Node.ELEMENT_NODE) {
    if (element.nodeValue !== wanted.nodeValue) {
      element.nodeValue = wanted.nodeValue;
    }
    return;
  }
  takeAttributes(element, wanted);
  const children = [...wanted.childNodes];
  // What has a name is known by it: something new before it does not make it something else.
  const named = new Map([...element.children].filter(({ id }) => id).map((one) => [one.id, one]));
  const kept = new Set(children.map(({ id }) => id));
  for (const [id, one] of named) {
    if (!kept.has(id)) {
      one.remove();
      named.delete(id);
    }
  }
  children.forEach((child, index) => {
    const present = element.childNodes[index] ?? null;
    const known = named.get(child.id);
    if (known !== undefined) {
      if (known !== present) {
        element.insertBefore(known, present);
      }
      become(known, child);
    } else if (present !== null && isSame(present, child)) {
      become(present, child);
    } else if (present === null || present.id) {
      element.insertBefore(child, present);
    } else {
      present.replaceWith(child);
    }
  });
  while (element.childNodes.length > children.length) {
    element.lastChild.remove();
  }
}

function say(text) {
  if (gone.textContent !== text) {
    gone.textContent = text;
  }
  gone.hidden = text === "";
  // Good news is none any more: the picture fades, and its badge and age go.
  document.body.classList.toggle("stale", text !== "");
  if (text !== "") {
    document.title = `? no answer: ${document.getElementById("node")?.textContent ?? "exporter"}`;
  }
}

async function refresh() {
  const answer = await fetch(location.href.split("#")[0], {
    cache: "no-store",
    headers: { Accept: "text/html" },
    signal: AbortSignal.timeout(PATIENCE),
  });
  const type = answer.headers.get("Content-Type") ?? "";
  if (!type.startsWith("text/html")) {
    throw new Error(`${answer.status} ${answer.statusText}`);
  }
  const wanted = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.title = wanted.title;
  become(document.querySelector("main"), wanted.querySelector("main"));
}

let lastSuccess = Date.now();

async function follow() {
  const started = Date.now();
  if (!document.hidden) {
    try {
      await refresh();
      lastSuccess = Date.now();
      say("");
    } catch (error) {
      const seconds = Math.round((Date.now() - lastSuccess) / 1000);
      say(`The exporter does not answer; what follows is ${seconds} s old.`);
    }
  }
  // A page that takes long to make is asked for less often.
  setTimeout(follow, Math.max(SHORTEST_WAIT, 4 * (Date.now() - started)));
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    refresh().catch(() => {});
  }
});
setTimeout(follow, SHORTEST_WAIT);
