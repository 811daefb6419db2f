// The few words in which the page is built.

export const $ = (id) => document.getElementById(id);

// el('button', { class: 'quiet', onclick: f, 'aria-label': 'x' }, 'text', child, …)
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

export const clock = (at = new Date()) => at.toLocaleTimeString([], { hour12: false });

// Milliseconds as a person reads them: 0.04, 3.2, 41.
export const ms = (n) => (n < 1 ? n.toFixed(2) : n < 10 ? n.toFixed(1) : n.toFixed(0));

// 72 -> "1:12".
export const left = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;

// A text that is longer than it is wide keeps its end in sight.
export function keep_end(node) {
  node.scrollTop = node.scrollHeight;
}

export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
