// The naive control beside ours: two buyers and one unit, once by read, check and decrement in a scratch schema of the same
// PostgreSQL, once at this shop.
import { $, el } from './dom.js';
import { site, till } from './wires.js';
import { one_left, units_sold } from './race.js';

async function naive() {
  const answer = await fetch('/page-naive', { method: 'POST' });
  if (!answer.ok) throw new Error(answer.status === 503 ? 'PostgreSQL does not answer.' : 'The control could not be run.');
  return answer.json();
}

// At the same moment, on two wires; how many were sold, the ledger says.
async function ours() {
  const version = await one_left();
  await Promise.all([site.buy(), till.send([till.sale()])]);
  return units_sold(version);
}

export async function naive_beside_ours() {
  const result = $('naive-result');
  result.className = '';
  result.textContent = 'Two buyers each, for one unit …';
  try {
    const control = await naive();
    const sold = await ours();
    const word = (who, of, units) => el('span', { class: units === of ? 'good' : 'bad' }, `${who}: sold ${units} of ${of}`);
    result.replaceChildren(word('naive', control.of, control.sold), ' · ', word('ours', 1, sold));
    $('naive-why').textContent = `Both buyers of the naive one read 1 before either had written; its stock now says ${control.on_hand}.`;
  } catch (error) {
    result.textContent = `The race did not begin. ${error.message}`;
    result.className = 'bad';
  }
}
