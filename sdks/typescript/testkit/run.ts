/** Runs the tests, or those of the files that are named, several files at once: most of what they do is wait. */

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const FILES_AT_ONCE = 4;
const FILE_MAX_MS = 900_000;

const folder = fileURLToPath(new URL("../test", import.meta.url));
const named = process.argv.slice(2).map((name) => `${name}.test.js`);
const tests = readdirSync(folder).filter((name) => name.endsWith(".test.js"));
const files = tests.filter((name) => named.length === 0 || named.includes(name)).map((name) => join(folder, name));

run({ files, concurrency: FILES_AT_ONCE, timeout: FILE_MAX_MS })
  .on("test:fail", () => (process.exitCode = 1))
  .pipe(new spec())
  .pipe(process.stdout);
