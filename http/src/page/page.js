// @ts-check
// Makes a page live: whatever stands in a [data-part] is replaced when something has changed, and times run on.
// Without it, every page works as it is.

const body = document.body;
const status = document.getElementById('live');
/** The nearest the pages are asked for again, in milliseconds. */
const REFRESH_MIN = 400;
/** Renewals are no events, so a page is asked for again this often at least. */
const REFRESH_MAX = Number(body.dataset.pace ?? 10_000);
/** A stream that says nothing for so long is taken for dead: the server gives a sign of life every five seconds. */
const SILENCE_MAX = 12_000;

/** @type {WeakMap<Element, { at: number, up: boolean, whole: number }>} When what is shown ends or began. */
const clocks = new WeakMap();
let heard = performance.now();
let refreshed = Date.now();
let took = 0;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let planned;
let isAsking = false;
let isOver = false;

/**
 * As the server says it.
 * @param {number} ms
 */
function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

/**
 * Notes when the times below `root` end or began; `from` is when the server wrote them.
 * @param {ParentNode} root
 * @param {number} from
 */
function arm(root, from) {
  for (const element of root.querySelectorAll('[data-left], [data-since]')) {
    const { left, since, whole } = /** @type {HTMLElement} */ (element).dataset;
    const at = left === undefined ? from - Number(since) : from + Number(left);
    clocks.set(element, { at, up: left === undefined, whole: Number(whole ?? 0) });
  }
}

function tick() {
  const now = performance.now();
  let isDue = false;
  for (const element of document.querySelectorAll('[data-left], [data-since]')) {
    const clock = clocks.get(element);
    if (!clock) continue;
    const ms = clock.up ? now - clock.at : clock.at - now;
    isDue ||= !clock.up && ms <= 0;
    const text = element.querySelector('.run') ?? element;
    const said = duration(ms);
    if (text.textContent !== said) text.textContent = said;
    const bar = element.querySelector('rect:not(.rail)');
    if (bar && clock.whole > 0) bar.setAttribute('width', String(Math.max(0, Math.min(100, (100 * ms) / clock.whole))));
  }
  if (isDue || Date.now() - refreshed > REFRESH_MAX) plan();
}

/**
 * @param {'live' | 'wait' | 'stale'} state
 * @param {string} text
 */
function say(state, text) {
  if (!status) return;
  if (status.textContent !== text) status.textContent = text;
  status.dataset.state = state;
  body.toggleAttribute('data-stale', state === 'stale');
}

/** In UTC, as every other time on the pages. */
const clockTime = () => `${new Date(refreshed).toISOString().slice(11, 19)} UTC`;

function plan() {
  if (planned !== undefined || isOver || document.hidden) return;
  const rest = Math.max(REFRESH_MIN, 4 * took) - (Date.now() - refreshed);
  planned = setTimeout(() => { planned = undefined; refresh(); }, Math.max(0, rest));
}

async function refresh() {
  if (isAsking) return;
  isAsking = true;
  const sent = performance.now();
  try {
    const answer = await fetch(body.dataset.here ?? location.href, { headers: { accept: 'text/html' }, redirect: 'error', cache: 'no-store' });
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    replace(next, sent);
    refreshed = Date.now();
  } catch {
    // The stream finds out as well, and says so.
  } finally {
    took = performance.now() - sent;
    isAsking = false;
  }
}

/**
 * @param {Document} next
 * @param {number} from
 */
function replace(next, from) {
  for (const part of document.querySelectorAll('[data-part]')) {
    const name = /** @type {HTMLElement} */ (part).dataset.part ?? '';
    const fresh = next.querySelector(`[data-part="${CSS.escape(name)}"]`);
    if (!fresh || isInUse(part)) continue;
    const focus = focused(part);
    const before = new Map(rows(part).map(([key, text]) => [key, text]));
    const made = document.importNode(fresh, true);
    part.replaceWith(made);
    arm(made, from);
    for (const [key, text, row] of rows(made)) {
      if (before.size > 0 && before.get(key) !== text) row.classList.add('changed');
    }
    if (focus) /** @type {HTMLElement | null} */ (made.querySelector(focus))?.focus();
  }
  const title = next.querySelector('title')?.textContent;
  if (title && document.title !== title) document.title = title;
  tick();
}

/**
 * Somebody writes something here, or is about to press a button.
 * @param {Element} part
 */
function isInUse(part) {
  const fields = /** @type {NodeListOf<HTMLInputElement>} */ (part.querySelectorAll('input'));
  const isFilled = [...fields].some((field) => field.value !== field.defaultValue);
  // What was typed before the server refused it is still somebody's.
  return isFilled || part.hasAttribute('data-kept') || part.querySelector('input:focus, button:focus') !== null;
}

/**
 * How to find again what has the focus.
 * @param {Element} part
 * @returns {string | undefined}
 */
function focused(part) {
  const active = document.activeElement;
  if (!active || !part.contains(active)) return undefined;
  if (active.id) return `#${CSS.escape(active.id)}`;
  const href = active.getAttribute('href');
  return href === null ? undefined : `a[href="${CSS.escape(href)}"]`;
}

/**
 * What each row says beside its times.
 * @param {ParentNode} part
 * @returns {[string, string, Element][]}
 */
function rows(part) {
  return [...part.querySelectorAll('tr[data-key]')].map((row) => {
    const said = /** @type {Element} */ (row.cloneNode(true));
    for (const time of said.querySelectorAll('[data-left], [data-since]')) time.remove();
    return [/** @type {HTMLElement} */ (row).dataset.key ?? '', said.textContent ?? '', row];
  });
}

/**
 * Listens as long as the server speaks; `true`: it makes no sense to come back.
 * @param {string} url
 */
async function listen(url) {
  const gone = new AbortController();
  const watchdog = setInterval(() => { if (performance.now() - heard > SILENCE_MAX) gone.abort(); }, 1000);
  try {
    heard = performance.now();
    const answer = await fetch(url, { headers: { accept: 'text/event-stream' }, signal: gone.signal, cache: 'no-store', redirect: 'error' });
    if (answer.status === 401 || answer.status === 403) return true;
    if (!answer.ok || !answer.body) return false;
    // What happened while nobody listened.
    await refresh();
    say('live', 'Live');
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const { done, value } = await reader.read();
      if (done) return false;
      heard = performance.now();
      const lines = (rest + value).split('\n');
      rest = lines.pop() ?? '';
      if (lines.some((line) => line.startsWith('event: change'))) plan();
    }
  } catch {
    return false;
  } finally {
    clearInterval(watchdog);
    gone.abort();
  }
}

/** @param {string} url */
async function stay(url) {
  for (let pause = 300; ;) {
    const began = performance.now();
    if (await listen(url)) {
      isOver = true;
      say('stale', 'Signed out, or not allowed any more. ');
      const again = document.createElement('a');
      again.href = body.dataset.here ?? location.pathname + location.search;
      again.textContent = 'Sign in again';
      status?.append(again);
      return;
    }
    if (performance.now() - began > 10_000) pause = 300;
    say('stale', `Connection lost. Not up to date since ${clockTime()}; trying again`);
    await new Promise((done) => { setTimeout(done, pause); });
    pause = Math.min(pause * 2, 5000);
  }
}

function offerCopies() {
  if (!navigator.clipboard) return;
  for (const snippet of document.querySelectorAll('.snippet')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(snippet.querySelector('pre')?.textContent ?? '');
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
    snippet.querySelector('header')?.append(button);
  }
}

for (const select of document.querySelectorAll('form.find select')) {
  select.addEventListener('change', () => { /** @type {HTMLSelectElement} */ (select).form?.requestSubmit(); });
}
document.addEventListener('keydown', (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || target.closest('input, textarea, select')) return;
  const search = document.getElementById('search');
  if (search) {
    event.preventDefault();
    search.focus();
  }
});
document.addEventListener('visibilitychange', () => { if (!document.hidden) plan(); });

const [opened] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType('navigation'));
arm(document, opened?.responseStart ?? 0);
offerCopies();
const url = body.dataset.live;
if (url) {
  say('wait', 'Connecting');
  setInterval(tick, 250);
  stay(url);
}
