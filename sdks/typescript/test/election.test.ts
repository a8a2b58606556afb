import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { soon, until } from "../testkit/patience.js";
import { Server } from "../testkit/server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

test("one leads, everybody knows who, and the next one follows", async () => {
  const [ann, bob] = ["ann", "bob"].map((owner) => server.client({ owner }).election("scheduler"));
  assert.ok(ann && bob);
  assert.equal(await bob.leader(), undefined);
  const observed = bob.observe();
  assert.equal((await soon("nobody leads", observed.next())).value, undefined);

  const first = await ann.campaign({ url: "http://a" });
  const annLeads = { owner: "ann", fencingToken: first.fencingToken, value: { url: "http://a" } };
  assert.deepEqual((await soon("ann leads", observed.next())).value, annLeads);

  const campaign = bob.campaign("b");
  const look = server.client().calls;
  await until("bob waits", async () => (await look.look("scheduler")).n_waiting === 1);
  await first.release();
  const second = await soon("bob leads", campaign);
  assert.ok(second.fencingToken > first.fencingToken);
  let told = (await soon("bob is seen", observed.next())).value;
  if (told === undefined) {
    told = (await soon("bob is seen", observed.next())).value;
  }
  assert.deepEqual(told, { owner: "bob", fencingToken: second.fencingToken, value: "b" });
  await observed.return();
  await second.release();
});

test("a campaign can be given up", async () => {
  const election = server.client().election("given-up", { ttlMs: 5_000 });
  const term = await election.campaign(null);
  const controller = new AbortController();
  const campaign = election.campaign(null, { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(campaign, /enough/);
  await term.release();
});
