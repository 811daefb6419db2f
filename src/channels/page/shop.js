// A product's page goes on from what it was rendered with: the words are its own, the figures those of /v1/events.
const state = document.getElementById('availability');
const { sku, key, some, last, none, held, always } = state.dataset;

function words_of({ tracked, available, held: holds }) {
  if (!tracked) return always;
  if (available > 1) return some.replace('{n}', available);
  return available === 1 ? last : holds ? held : none;
}

const stream = new EventSource(`/v1/events?sku=${encodeURIComponent(sku)}&key=${encodeURIComponent(key)}`);
stream.addEventListener('availability', (event) => {
  const item = JSON.parse(event.data);
  const words = words_of(item);
  if (state.textContent !== words) state.textContent = words;
  state.className = !item.tracked || item.available ? 'in' : 'out';
});
