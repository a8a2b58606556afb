// Words longer than the screen: pages stay as wide as it is, and nothing is printed over anything else.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { close, launch, openIn, serious } from './page.mjs';
import { startServer, until } from './server.mjs';

let server;
let browser;
let waiting;

const NAMESPACE = 'n'.repeat(120);
const NAME = 'l'.repeat(400);
const OWNER = 'kubernetes-job-runner-7f9c6d5b8-xk2lp.production';
const LONG_OWNER = 'o'.repeat(84);
const REASON = 'r'.repeat(400);
const lockPage = (name, namespace) => `/console/lock?${new URLSearchParams({ namespace, name })}`;
const PAGES = ['/console', '/console?sort=waited', lockPage(NAME, NAMESPACE), lockPage('payments_reconciliation_nightly_eu', 'default'),
  lockPage(NAME, 'default'), '/console/sessions', '/console/sessions?from=x', '/console/sessions/end?number=1', '/console/sessions/end?number=2', '/console/files', '/console/cluster',
  `/console/take?${new URLSearchParams({ namespace: NAMESPACE, name: NAME })}`, `/console?sort=${NAME}`, `/console?q=${'q'.repeat(200)}`, '/lock/page'];

before(async () => {
  server = await startServer('--dialects', 'locks,lock,files');
  await server.begin();
  browser = await launch();
  await server.acquire(NAME, LONG_OWNER, { namespace: NAMESPACE, ttl_ms: 6_000_000, grace_ms: 1000, metadata: { [NAME]: REASON } });
  waiting = server.acquire(NAME, LONG_OWNER.replaceAll('o', 'w'), { namespace: NAMESPACE, wait_ms: 3_600_000 }).catch(() => undefined);
  await until('it waits', async () => (await server.look(NAME, NAMESPACE)).n_waiting === 1);
  await server.acquire('payments_reconciliation_nightly_eu', OWNER, { ttl_ms: 5_940_000 });
  await server.acquire('short', LONG_OWNER);
  await server.acquire(NAME, OWNER);
  const revoked = await server.call('POST', `/v1/namespaces/default/locks/${NAME}/revoke`, { reason: REASON });
  assert.equal(revoked.status, 200, revoked.text);
  for (const owner_id of [OWNER, LONG_OWNER]) {
    const session = await server.call('POST', '/v1/sessions', { owner_id, ttl_ms: 6_000_000 });
    assert.ok(session.status < 300, session.text);
  }
  for (const [client, job] of [['laptop1', 'printer'], [OWNER, 'j'.repeat(100)], [LONG_OWNER, 'nightly']]) {
    const taken = await server.call('POST', `/lock?${new URLSearchParams({ client, job, ttl: '30m' })}`);
    assert.ok(taken.status < 300, taken.text);
  }
}, { timeout: 600_000 });

after(async () => {
  await browser?.close();
  await server?.end('SIGKILL');
  await waiting;
  await server?.stop();
});

// What is wrong with how a page is laid out: what is wider than what it is in, and texts one over the other.
const faults = () => {
  const found = [];
  const page = document.scrollingElement;
  if (page.scrollWidth > innerWidth) found.push(`the page is ${page.scrollWidth} px wide of ${innerWidth}`);
  for (const box of document.querySelectorAll('.table, .card, .title, .crumb, .note, .tiles')) {
    if (box.scrollWidth > box.clientWidth + 1) found.push(`${box.className} has ${box.scrollWidth} px in ${box.clientWidth}`);
  }
  // Each line of each text, by what it is a part of.
  for (const whole of document.querySelectorAll('tbody tr, .title, dl.facts, ol.timeline li, header.top')) {
    const lines = [];
    const walker = document.createTreeWalker(whole, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (!node.data.trim() || node.parentElement.closest('.unseen')) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const { left, right, top, bottom } of range.getClientRects()) {
        // Lines of text touch, and a browser rounds.
        if (right - left > 2 && bottom - top > 8) lines.push({ node, left: left + 1, right: right - 1, top: top + 4, bottom: bottom - 4 });
      }
    }
    lines.forEach((one, n) => {
      const over = lines.slice(n + 1).find((other) => one.node !== other.node
        && one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom);
      if (over) found.push(`"${over.node.data.trim().slice(0, 30)}" is over "${one.node.data.trim().slice(0, 30)}"`);
    });
    // What stands before a cell is no text of the page, but takes room as such.
    const cells = [...whole.querySelectorAll(':scope > th, :scope > td')].map((cell) => cell.getBoundingClientRect());
    cells.forEach((one, n) => {
      const other = cells[n + 1];
      if (other && one.left + 1 < other.right && other.left + 1 < one.right && one.top + 1 < other.bottom && other.top + 1 < one.bottom) {
        found.push('two cells of a row are in one place');
      }
    });
    for (const cell of whole.querySelectorAll(':scope > th, :scope > td')) {
      if (cell.scrollWidth > cell.clientWidth + 1) found.push(`"${cell.textContent.trim().slice(0, 30)}" does not fit its cell`);
    }
  }
  return found;
};

for (const width of [360, 1100]) {
  test(`long words make nothing wider at ${width} px, and nothing is over anything else`, { timeout: 600_000 }, async () => {
    const page = await openIn(browser, undefined, { viewport: { width, height: 800 }, bypassCSP: true }, server);
    for (const path of PAGES) {
      await page.goto(server.url + path);
      assert.deepEqual(await page.evaluate(faults), [], `${path.slice(0, 60)} at ${width} px`);
    }
    await page.goto(`${server.url}/console`);
    assert.deepEqual(await serious(page), []);
    await close(page);
  });
}
