// Numbers as people read them, and elements whose content is only ever text.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

export const count = (value) => whole.format(value);
export const number = (value) => (Math.abs(value) >= 1000 ? whole : few).format(value);
export const percent = (value) => {
  const digits = value === 0 || value >= 0.1 ? 1 : value >= 0.001 ? 2 : 4;
  return `${(100 * value).toFixed(digits)} %`;
};
export const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;
export const clock = (time) => new Date(1000 * time).toLocaleTimeString("en-GB");

// A day is named where it is not today.
export const moment = (time) => {
  const then = new Date(1000 * time);
  const today = then.toDateString() === new Date().toDateString();
  return today ? clock(time) : then.toLocaleString("en-GB");
};

export const seconds = (value) => {
  if (value < 1) return `${Math.round(1000 * value)} ms`;
  if (value < 120) return `${value.toFixed(1)} s`;
  return value < 7200 ? `${Math.round(value / 60)} min` : `${Math.round(value / 3600)} h`;
};

// Touches the document only where something changed, so that nothing is read aloud twice.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// A name came from an event: it is isolated, so that it cannot turn the text around it.
export const named = (name) => make("bdi", { class: "name", dir: "auto", title: name }, name);
