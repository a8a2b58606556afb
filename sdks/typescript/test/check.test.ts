import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, type ClientOptions, InvalidError, type LockOptions, type Wanted } from "../src/index.js";

/** Where nobody listens: what is refused here was not sent. */
const client = new Client("http://127.0.0.1:1");

test("what is no name is no lock", async () => {
  for (const name of [undefined, null, {}, 5, "", Number.NaN, ["a"]]) {
    await assert.rejects(client.lock(name as string).acquire(), InvalidError);
    await assert.rejects(client.locks(["a", name as Wanted]).acquire(), InvalidError);
    await assert.rejects(client.locks([{ name: name as string }]).acquire(), InvalidError);
    await assert.rejects(client.election(name as string).campaign("me"), InvalidError);
    await assert.rejects(client.calls.look(name as string), InvalidError);
  }
  await assert.rejects(client.locks("ab" as unknown as Wanted[]).acquire(), InvalidError);
});

test("options that nobody knows, or that have no meaning, are refused", async () => {
  const wrong = [
    { ttl: 5 }, { wait: 5 }, { limit: Number.NaN }, { limit: 0 }, { limit: 1.5 }, { limit: "2" }, { ttlMs: Number.NaN }, { ttlMs: "5" },
    { ttlMs: 0 }, { waitMs: -1 }, { waitMs: Number.NaN }, { graceMs: Infinity }, { marginMs: Number.NaN }, { retry: { attempts: 1 } },
    { retry: { attemptsMax: 0 } }, { retry: { totalMaxMs: Number.NaN } },
  ];
  for (const options of wrong) {
    await assert.rejects(client.lock("a", options as LockOptions).acquire(), InvalidError, JSON.stringify(options));
  }
  await assert.rejects(client.lock("a", { ttl: 5 } as LockOptions).acquire(), /no option "ttl"; there are owner, ttlMs/);
  await assert.rejects(client.locks(["a"], { limit: 2 } as object).acquire(), InvalidError);
  await assert.rejects(client.locks([{ name: "a", limit: Number.NaN }]).acquire(), InvalidError);
  await assert.rejects(client.openSession({ ttl: 5 } as object), InvalidError);
  await assert.rejects(client.election("a", { ttl: 5 } as object).campaign("me"), InvalidError);
});

test("a client's times fit a timer", () => {
  for (const timeoutMs of [0, -1, Number.NaN, Infinity, 2 ** 40, "5"]) {
    assert.throws(() => new Client({ timeoutMs } as ClientOptions), InvalidError);
    assert.throws(() => new Client({ connectTimeoutMs: timeoutMs } as ClientOptions), InvalidError);
  }
  assert.throws(() => new Client({ timeout: 5 } as ClientOptions), /no option "timeout"/);
  new Client({ timeoutMs: 1, connectTimeoutMs: 2 ** 31 - 1 });
});
