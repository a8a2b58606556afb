/** The package as others get it: generated types, version, contents, and the examples of its README. */

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Server } from "../testkit/server.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const bin = join(root, "node_modules/.bin");
const text = (path: string): string => readFileSync(join(root, path), "utf8");
const manifest = JSON.parse(text("package.json"));

const folder = mkdtempSync(join(tmpdir(), "leasehold-ts-"));
const environment = { ...process.env, npm_config_cache: join(folder, "cache"), npm_config_update_notifier: "false" };
let files: string[] = [];
let server: Server;

before(async () => {
  server = await Server.start();
  const packed = execFileSync("npm", ["pack", "--json", "--pack-destination", folder], { cwd: root, env: environment });
  // What the build says comes before the answer.
  const [pack] = JSON.parse(packed.toString().slice(packed.toString().indexOf("[")));
  files = pack.files.map(({ path }: { path: string }) => path);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  // As others install it, in a folder where there is nothing; it needs nothing else, so nobody has to be asked.
  const quiet = ["--offline", "--no-audit", "--no-fund", "--silent"];
  execFileSync("npm", ["install", ...quiet, join(folder, pack.filename)], { cwd: folder, env: environment });
});
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
});

/** The code blocks in this language, in order: of these pages, or of the README and of the page about this package. */
function examples(language: string, ...pages: string[]): string[] {
  const read = pages.length > 0 ? pages : ["README.md", "../../docs/reference/sdk-typescript.md"];
  const blocks = read.flatMap((page) => [...text(page).matchAll(/^```(\w+)\n(.*?)^```$/gms)]);
  return blocks.filter(([, of]) => of === language).map(([, , code]) => code ?? "");
}

test("the wire types are what the generator makes of the contract", () => {
  const made = join(folder, "wire.ts");
  execFileSync(join(bin, "openapi-typescript"), ["../../docs/openapi.json", "--alphabetize", "--output", made], { cwd: root, stdio: "ignore" });
  assert.ok(readFileSync(made, "utf8") === text("src/wire.ts"), "src/wire.ts is out of date: run `sdks/typescript/check --generate`");
});

test("the version is the server's", () => {
  const cargo = /^\[workspace\.package\]\nversion = "(.*)"$/m.exec(text("../../Cargo.toml"));
  const lock = JSON.parse(text("package-lock.json"));
  assert.ok(cargo);
  assert.deepEqual([manifest.version, lock.version, lock.packages[""].version], [cargo[1], cargo[1], cargo[1]]);
});

test("the package has what it needs, no more, and depends on nothing", () => {
  assert.ok(["dist/index.js", "dist/index.d.ts", "README.md", "LICENSE", "package.json"].every((file) => files.includes(file)));
  assert.deepEqual(files.filter((file) => !/^(dist\/|README\.md$|LICENSE$|package\.json$)/.test(file)), []);
  assert.equal(manifest.dependencies, undefined);
  assert.equal(text("LICENSE"), text("../../LICENSE"));
});

test("the examples of the README and of docs/reference/sdk-typescript.md run", async () => {
  const scripts = examples("js");
  assert.ok(scripts.length >= 5);
  await Promise.all(
    scripts.map(async (script, n) => {
      // Several examples use the same lock names.
      const env = { ...process.env, LEASEHOLD_URL: server.url, LEASEHOLD_NAMESPACE: `example-${n}` };
      const path = join(folder, `example-${n}.mjs`);
      writeFileSync(path, script);
      await promisify(execFile)("node", [path], { env, cwd: folder, timeout: 300_000 });
    }),
  );
});

/** The examples of the page of all clients leave out what is done under the lock. */
const WORK = "\nasync function work(token: number, signal: AbortSignal): Promise<void> {\n  console.log(token, signal.aborted);\n}\n";

/** What the console shows of a lock with a name that has to be quoted. */
async function snippet(): Promise<string> {
  const query = new URLSearchParams({ name: "a'b\"c\\d $x `y` ${z} \u202e\u{e0001} ü/1", namespace: "shop" });
  const page = await (await fetch(`${server.url}/console/take?${query}`)).text();
  const found = /aria-label="Example for TypeScript">(.*?)<\/pre>/s.exec(page)?.[1];
  assert.ok(found, page);
  const entities: Record<string, string> = { lt: "<", gt: ">", quot: '"', "#39": "'", amp: "&" };
  return found.replace(/&(#?\w+);/g, (whole, name) => entities[name] ?? whole);
}

test("the typed examples of the README, docs/reference/sdk.md and the console are right, also with the strictest settings", async () => {
  const shared = examples("ts", "../../docs/reference/sdk.md").map((code) => code.replace("http://127.0.0.1:8080", server.url) + WORK);
  const typed = [...examples("ts"), ...shared, (await snippet()) + WORK];
  assert.ok(shared.length >= 1 && typed.length >= 3);
  const paths = typed.map((_, n) => join(folder, `typed-${n}.ts`));
  paths.forEach((path, n) => writeFileSync(path, typed[n] ?? ""));
  symlinkSync(join(root, "node_modules/@types"), join(folder, "node_modules/@types"));
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--skipLibCheck", "false"];
  const options = ["--target", "es2022", "--lib", "es2022,esnext.disposable", "--module", "nodenext", "--types", "node"];
  execFileSync(join(bin, "tsc"), [...strict, ...options, ...paths], { cwd: folder, stdio: "inherit" });
  for (const path of paths) {
    execFileSync("node", [path.replace(/ts$/, "js")], { env: { ...process.env, LEASEHOLD_URL: server.url }, timeout: 300_000 });
  }
});

test("the line for cron runs the job once, however many machines it is on", async () => {
  const crontab = examples("crontab")[0];
  assert.ok(crontab);
  const command = /^[\d*/ ]+ (.*)$/m.exec(crontab)?.[1];
  assert.ok(command !== undefined && command.includes("LEASEHOLD_URL="));
  writeFileSync(join(folder, "nightly.mjs"), job());
  const here = command.replace(/LEASEHOLD_URL=\S+/, `LEASEHOLD_URL=${server.url}`).replace("/srv/jobs", folder);
  const env = { ...process.env, LEASEHOLD_NAMESPACE: "cron" };
  const results = await Promise.all([1, 2, 3].map(() => promisify(execFile)("sh", ["-c", here], { env, timeout: 300_000 })));
  const said = results.map(({ stdout }) => stdout.trim()).sort();
  assert.deepEqual(said.map((line) => line.replace(/\d+$/, "N")), [
    "another machine does it",
    "another machine does it",
    "done under fencing token N",
  ]);
});

test("the CronJob runs that job, with a key from a secret", async () => {
  const manifestText = examples("yaml")[0];
  assert.ok(manifestText);
  const command = /command: (\[.*\])/.exec(manifestText)?.[1];
  assert.deepEqual(JSON.parse(command ?? "null"), ["node", "nightly.mjs"]);
  const [key, pod] = [join(folder, "api-key"), join(folder, "pod")];
  mkdirSync(pod);
  copyFileSync(join(folder, "package.json"), join(pod, "package.json"));
  symlinkSync(join(folder, "node_modules"), join(pod, "node_modules"));
  writeFileSync(join(pod, "nightly.mjs"), job());
  writeFileSync(key, "a-key\n");
  chmodSync(key, 0o600);
  const names = [...manifestText.matchAll(/- name: (LEASEHOLD_\w+)/g)].map(([, name]) => name);
  assert.deepEqual(names, ["LEASEHOLD_URL", "LEASEHOLD_API_KEY_FILE"]);
  const env = { ...process.env, LEASEHOLD_URL: server.url, LEASEHOLD_API_KEY_FILE: key, LEASEHOLD_NAMESPACE: "pod" };
  const { stdout } = await promisify(execFile)("node", ["nightly.mjs"], { cwd: pod, env, timeout: 300_000 });
  assert.match(stdout, /^done under fencing token \d+\n$/);
});

/** `nightly.mjs` of the page: the example that begins with its name. */
function job(): string {
  const found = examples("js").find((script) => script.startsWith("// nightly.mjs"));
  assert.ok(found);
  return found;
}
