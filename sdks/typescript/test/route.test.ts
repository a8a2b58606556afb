import assert from "node:assert/strict";
import { test } from "node:test";

import { Routes, type Trip } from "../src/route.js";
import { settings } from "../src/settings.js";

const [A, B, C] = ["http://a", "http://b", "http://c"];

function routes(url: string, options: { direct?: boolean; followAnyLeader?: boolean } = {}): Routes {
  return new Routes(settings({ url, ...options }, {}));
}

function state({ url, isDirect }: Trip): [string, boolean] {
  return [url, isDirect];
}

test("every URL is tried once if none is there", () => {
  const known = routes("http://a,http://b,http://c");
  known.begin().failed();
  const trip = known.begin();
  const seen = [trip.url];
  while (trip.goOn()) {
    seen.push(trip.url);
  }
  assert.deepEqual(seen, [B, C, A]);
});

test("those that fail together move on by one", () => {
  const known = routes("http://a,http://b,http://c");
  [known.begin(), known.begin(), known.begin()].forEach((trip) => trip.failed());
  assert.equal(known.begin().url, B);
});

test("a leader is followed to where it was given", () => {
  const known = routes("http://a,http://b,http://C:80/x/");
  const trip = known.begin();
  assert.ok(trip.goOnFromFollower("http://c/x"));
  assert.deepEqual(state(trip), ["http://c/x", true]);
  trip.wasAnswered();
  assert.equal(known.begin().url, "http://c/x");
});

test("a leader that was not given is left to those that know it", () => {
  for (const leader of ["http://evil", "unix:/run/a.sock", "b", "https://a", "http://a/other", "http://x:y@a", "", undefined]) {
    const known = routes("http://a,http://b");
    const trip = known.begin();
    assert.ok(trip.goOnFromFollower(leader));
    assert.deepEqual(state(trip), [B, true], leader);
    assert.ok(trip.goOnFromFollower(leader));
    assert.deepEqual(state(trip), [B, false], "it passes it on");
    trip.wasAnswered();
    assert.deepEqual(state(known.begin()), [B, false], "and so for a while");
    assert.ok(!trip.goOnFromFollower(leader));
  }
});

test("a leader that is gone is not asked twice", () => {
  const trip = routes("http://a,http://b").begin();
  assert.ok(trip.goOn());
  assert.ok(trip.goOnFromFollower(A));
  assert.deepEqual(state(trip), [B, false]);
  assert.ok(!trip.goOn());
});

test("any leader is followed if that is meant, and never to less safety", () => {
  const known = routes("http://a", { followAnyLeader: true });
  let trip = known.begin();
  assert.ok(trip.isDirect && trip.goOnFromFollower("http://n7:81/"));
  assert.equal(trip.url, "http://n7:81");
  trip.wasAnswered();
  trip = known.begin();
  assert.equal(trip.url, "http://n7:81");
  assert.ok(trip.goOn());
  assert.equal(trip.url, A, "back to what was given");
  trip = routes("https://a,https://b", { followAnyLeader: true }).begin();
  assert.ok(trip.goOnFromFollower("http://c"));
  assert.equal(trip.url, "https://b");
});

test("one URL is not asked who leads, unless that is meant", () => {
  assert.equal(routes("http://a").begin().isDirect, false);
  assert.equal(routes("http://a", { direct: true }).begin().isDirect, true);
  assert.equal(routes("http://a,http://b", { direct: false }).begin().isDirect, false);
});

test("a list that makes no sense is refused, and why", () => {
  const said = (url: string | string[]): RegExp | string => {
    try {
      return settings({ url }, {}).urls.join();
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const url of ["", ",", "http://a,", "http://a,,http://b", ["http://a", ""]]) {
    assert.match(String(said(url)), /^a URL is empty/, String(url));
  }
  for (const url of ["http://a,http://A:80/", "unix:/a,unix:///a", ["http://a", "http://a"]]) {
    assert.match(String(said(url)), /is given twice$/, String(url));
  }
  assert.match(String(said([])), /no URL is given/);
});

test("any leader is not followed with credentials", () => {
  const follow = { url: "http://127.0.0.1:1", followAnyLeader: true };
  assert.throws(() => settings({ ...follow, apiKey: "key" }, {}), /only to servers whose URLs are given/);
  assert.throws(() => settings(follow, { LEASEHOLD_CLIENT_CERT_FILE: "a.pem" }), /only to servers whose URLs are given/);
  assert.ok(settings(follow, {}).direct);
});
