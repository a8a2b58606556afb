import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";

import { Client, type Events, type Watched } from "../src/index.js";
import { Link } from "../testkit/link.js";
import { soon } from "../testkit/patience.js";
import { Server } from "../testkit/server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

async function next(events: Events): Promise<Watched> {
  const { value } = await soon("an event", events.next());
  assert.ok(value);
  return value;
}

function brief(watched: Watched): string {
  return watched.gap ? `gap: ${watched.reason}` : `${watched.event.kind} ${watched.event.lock_name} ${watched.event.fencing_token}`;
}

test("events are told as they happen, over cuts and a restart, each once", async (t) => {
  const link = await Link.to(() => server.url, t);
  const client = server.client();
  const events = new Client({ url: link.url }).events({ prefix: "e/" });
  await events.connect();
  const told: string[] = [];
  const touch = async (lock: string): Promise<void> => await (await client.lock(lock).acquire()).release();
  await touch("e/1");
  await touch("other");
  told.push(brief(await next(events)), brief(await next(events)));
  link.cut();
  await touch("e/2");
  told.push(brief(await next(events)));
  await server.kill();
  await server.start();
  await touch("e/3");
  told.push(brief(await next(events)), brief(await next(events)), brief(await next(events)));
  const each = (n: number): string[] => [`granted e/${n} 1`, `released e/${n} 1`];
  assert.deepEqual(told, [...each(1), ...each(2), ...each(3)]);
  await events.return();
});

test("a connection that breaks before the first event leaves a gap", async (t) => {
  const link = await Link.to(() => server.url, t);
  const events = new Client({ url: link.url }).events();
  await events.connect();
  link.cut();
  assert.equal(brief(await next(events)), "gap: the connection broke before the first event");
  await events.return();
});

test("one can go on after an event, and is told of a gap where that is not possible", async () => {
  const client = server.client();
  const first = client.events({ lock: "since" });
  await first.connect();
  await (await client.lock("since").acquire()).release();
  const granted = await next(first);
  assert.ok(!granted.gap);
  await first.return();
  const second = client.events({ lock: "since", since: granted.id });
  assert.equal(brief(await next(second)), "released since 1");
  await second.return();
  const unknown = client.events({ since: "1-1-1" });
  assert.match(brief(await next(unknown)), /^gap: /);
  await unknown.return();
});

test("the iteration ends with its signal", async () => {
  const controller = new AbortController();
  const client = server.client();
  const events = client.events({ signal: controller.signal });
  await events.connect();
  await client.lock("ends").run(() => undefined);
  const kinds = [];
  for await (const watched of events) {
    kinds.push(brief(watched));
    if (kinds.length === 2) {
      controller.abort();
    }
  }
  assert.deepEqual(kinds, ["granted ends 1", "released ends 1"]);
});

test("a server that cannot be reached is told", async (t) => {
  const link = await Link.to(() => server.url, t);
  const events = new Client({ url: link.url, connectTimeoutMs: 100 }).events();
  link.close();
  await assert.rejects(soon("it gives up", events.next()), { name: "UnreachableError" });
  await events.return();
});

test("that events can be late is told, and that they no longer are", async (t) => {
  const stub = createServer((_, answer) => {
    answer.writeHead(200, { "content-type": "text/event-stream" });
    answer.write('event: stale\ndata: {"reason":"cut off"}\n\nevent: current\ndata: {"reason":"back"}\n\n');
  });
  await new Promise<void>((resolve) => stub.listen(0, "127.0.0.1", resolve));
  t.after(() => stub.closeAllConnections());
  t.after(() => stub.close());
  const events = new Client({ url: `http://127.0.0.1:${(stub.address() as AddressInfo).port}` }).events();
  assert.deepEqual(await next(events), { gap: true, reason: "cut off", state: "stale" });
  assert.deepEqual(await next(events), { gap: true, reason: "back", state: "current" });
  await events.return();
});
