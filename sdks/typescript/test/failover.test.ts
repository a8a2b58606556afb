/** What a cluster says of its leader changes. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { Client } from "../src/index.js";

const LEASE = {
  acquired: true, lock_name: "a", owner_id: "o", lease_id: "1.a", fencing_token: 1,
  lease_expiry_ms: null, expires_in_ms: 9_000, expires_after_send_ms: 9_000,
};
const SESSION = { session_id: "1.s", owner_id: "o", expires_in_ms: 9_000, expires_after_send_ms: 9_000 };

test("a TTL that is shorter than a fail-over is warned of once", async (t) => {
  const server = createServer((request, response) => {
    const path = request.url ?? "";
    const said = path.endsWith("/release") ? { released: true } : path.endsWith("/sessions") ? SESSION : LEASE;
    const headers = path.startsWith("/single/") ? {} : { "leasehold-failover-ms": "10000" };
    request.resume().on("end", () => {
      response.writeHead(200, { "content-type": "application/json", ...headers }).end(JSON.stringify(said));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const warnings: string[] = [];
  const listen = (warning: Error & { code?: string }): void => {
    if (warning.code === "LEASEHOLD_SHORT_TTL") {
      warnings.push(warning.message);
    }
  };
  process.on("warning", listen);
  t.after(() => process.off("warning", listen));
  const takes = {
    lock: async (client: Client, ttlMs: number) => (await client.lock("a", { ttlMs }).acquire()).release(),
    session: async (client: Client, ttlMs: number) => (await client.openSession({ ttlMs })).close(),
  };
  for (const [what, take] of Object.entries(takes)) {
    for (const [path, ttlMs, n] of [["/single", 3_000, 0], ["", 10_000, 0], ["", 3_000, 1]] as const) {
      const client = new Client({ url: url + path });
      await take(client, ttlMs);
      await take(client, ttlMs);
      // Node emits a warning with the next tick.
      await setImmediate();
      assert.equal(warnings.length, n, `${what} ${path} ${ttlMs}: ${warnings}`);
      assert.ok(warnings.every((warning) => /ttlMs \(3000\).*at least 10000/.test(warning)), `${warnings}`);
      warnings.length = 0;
    }
  }
});

test("a wait outlasts an outage of the store, however many tries that takes", async (t) => {
  let nAsked = 0;
  const server = createServer((request, response) => {
    const isRelease = (request.url ?? "").endsWith("/release");
    nAsked += isRelease ? 0 : 1;
    const code = nAsked % 2 === 0 ? "BUSY" : "UNKNOWN";
    const outage = { error: "no", code, retryable: true, may_have_taken_effect: code === "UNKNOWN" };
    const isOut = !isRelease && nAsked <= 30;
    const said = isOut ? outage : isRelease ? { released: true } : LEASE;
    request.resume().on("end", () => {
      response.writeHead(isOut ? 503 : 200, { "content-type": "application/json" }).end(JSON.stringify(said));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const client = new Client({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  const retry = { pauseMinMs: 1, pauseMaxMs: 1 };
  const lease = await client.lock("a", { waitMs: 600_000, retry }).acquire();
  await lease.release();
  assert.equal(nAsked, 31);
});
