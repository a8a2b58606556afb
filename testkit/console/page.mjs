// Pages in a browser that may show nothing wrong: no error, no violation of their policy, nothing asked of another origin.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

export async function openIn(browser, path, options, server) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(180_000);
  page.wrong = [];
  page.on('pageerror', (error) => page.wrong.push(`error: ${error}`));
  page.on('dialog', (dialog) => { page.wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => {
    // That a server is gone, or refuses, is what some tests want.
    if (message.type() === 'error' && !/Failed to load resource|ERR_/.test(message.text())) page.wrong.push(message.text());
  });
  page.on('request', (request) => { if (!request.url().startsWith(server.url)) page.wrong.push(`asked ${request.url()}`); });
  if (path) await page.goto(server.url + path);
  return page;
}

export async function close(page) {
  assert.deepEqual(page.wrong, []);
  await page.context().close();
}

export const live = (page) => page.waitForSelector('#live[data-state=live]');

export const text = async (page, selector) => (await page.innerText(selector)).replace(/\s+/g, ' ').trim();

// What axe-core finds that is serious, of a page that was opened with bypassCSP.
export async function serious(page, rules = {}) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate((options) => window.axe.run(options), rules);
  const found = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).slice(0, 3).join(' ')}`);
}
