import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { inspect } from "node:util";

import { Client, InvalidError } from "../src/index.js";
import { settings } from "../src/settings.js";

const folder = mkdtempSync(join(tmpdir(), "leasehold-ts-"));
after(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

test("URLs come from the argument, the environment or the default", () => {
  const environment = { LEASEHOLD_URL: "http://a:1, http://b:2/base/" };
  assert.deepEqual(settings({}, {}).urls, ["http://127.0.0.1:8080"]);
  assert.deepEqual(settings({}, environment).urls, ["http://a:1", "http://b:2/base"]);
  assert.deepEqual(settings({ url: "http://c" }, environment).urls, ["http://c"]);
  assert.deepEqual(settings({ url: ["http://c", "https://d"] }, environment).urls, ["http://c", "https://d"]);
});

test("a CA file without a certificate is refused, and named", () => {
  const url = "https://a";
  for (const text of ["", "nothing", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]) {
    const caFile = file("ca.pem", text);
    const wanted = { name: "InvalidError", message: /ca\.pem .*LEASEHOLD_CA_FILE/ };
    assert.throws(() => settings({ url, caFile }, {}), wanted);
    assert.throws(() => settings({ url }, { LEASEHOLD_CA_FILE: caFile }), wanted);
  }
});

test("what is no URL of a server is refused", () => {
  for (const url of ["", "a:b:c", "ftp://a", "unix:", "unix://", "http://a?x=1", "http://a#x", "http://ann:secret@a"]) {
    assert.throws(() => settings({ url }, {}), InvalidError, url);
  }
  assert.throws(() => settings({ url: "http://ann:secret@a" }, {}), (error: Error) => !error.message.includes("secret"));
});

test("the API key comes from the argument, a file or the environment, in this order", () => {
  const [given, other] = [file("given", "from-file\n"), file("other", "from-variable-file\n")];
  const environment = { LEASEHOLD_API_KEY: "from-variable", LEASEHOLD_API_KEY_FILE: other };
  assert.equal(settings({ apiKey: "from-argument", apiKeyFile: given }, environment).apiKey, "from-argument");
  assert.equal(settings({ apiKeyFile: given }, environment).apiKey, "from-file");
  assert.equal(settings({}, environment).apiKey, "from-variable-file");
  assert.equal(settings({}, { LEASEHOLD_API_KEY: "from-variable" }).apiKey, "from-variable");
  assert.equal(settings({}, { LEASEHOLD_API_KEY: "" }).apiKey, undefined);
});

test("a key that cannot be sent, or a file that cannot be read, is refused without showing the key", () => {
  assert.throws(() => settings({ apiKey: "sec\nret" }, {}), (error: Error) => !error.message.includes("sec"));
  assert.throws(() => settings({ apiKeyFile: file("empty", "\n") }, {}), InvalidError);
  assert.throws(() => settings({ apiKeyFile: join(folder, "missing") }, {}), /cannot read apiKeyFile .*ENOENT/);
  const url = "https://a";
  assert.throws(() => settings({ url, clientCertFile: "a" }, {}), /clientCertFile and clientKeyFile must be given together/);
  const variables = { LEASEHOLD_CLIENT_KEY_FILE: "a" };
  assert.throws(() => settings({ url }, variables), /clientCertFile and clientKeyFile must be given together/);
  assert.throws(() => settings({ url }, { LEASEHOLD_CA_FILE: join(folder, "missing") }), /cannot read caFile .*ENOENT/);
  assert.deepEqual(settings({ url: "http://localhost" }, variables).tls, {}, "without TLS nothing is read");
});

test("a key is not sent over plain http to another machine, unless that is asked for", () => {
  const apiKey = "secret";
  for (const url of ["http://example.org", "http://10.0.0.1:80", "http://127.0.0.1.example.org", "http://[::2]"]) {
    assert.throws(() => settings({ url, apiKey }, {}), /unencrypted/, url);
    assert.throws(() => settings({ url: ["http://127.0.0.1:1", url], apiKey }, {}), /unencrypted/, url);
    assert.equal(settings({ url, apiKey, insecure: true }, {}).apiKey, apiKey);
    assert.equal(settings({ url }, {}).apiKey, undefined);
  }
  for (const url of ["https://example.org", "unix:/run/a.sock", "http://localhost:1", "http://a.localhost", "http://127.9.9.9", "http://[::1]:1"]) {
    assert.equal(settings({ url, apiKey }, {}).apiKey, apiKey, url);
  }
});

test("nothing that prints a client shows its key", () => {
  const client = new Client({ url: "http://127.0.0.1:1", apiKey: "very-secret" });
  const seen = [inspect(client, { depth: 9, showHidden: true }), JSON.stringify(client), String(client)];
  seen.push(inspect(client.lock("a"), { depth: 9, showHidden: true }), inspect(client.calls, { depth: 9, showHidden: true }));
  assert.ok(!seen.join().includes("very-secret"), seen.join());
});
