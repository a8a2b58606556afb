import assert from "node:assert/strict";
import { test } from "node:test";

import { Parser } from "../src/parser.js";

const TEXT = Buffer.from(': hello\n\nid: 1-2\r\nevent: granted\r\ndata: {"ü":1}\r\n\r\ndata:x\nid:3\n\n');

test("a message may come in any pieces", () => {
  for (let size = 1; size <= TEXT.length; size += 1) {
    const parser = new Parser();
    const messages = [];
    for (let at = 0; at < TEXT.length; at += size) {
      messages.push(...parser.push(TEXT.subarray(at, at + size)));
    }
    const first = { event: "granted", id: "1-2", data: '{"ü":1}' };
    assert.deepEqual(messages, [first, { event: "", id: "3", data: "x" }], `in pieces of ${size}`);
  }
});

test("a line without an end is not kept for ever", () => {
  const parser = new Parser();
  assert.throws(() => parser.push(Buffer.alloc((1 << 20) + 1, "x")), { name: "BrokenError" });
});

test("an event without an end is not kept for ever", () => {
  const parser = new Parser();
  const piece = Buffer.from(`data: ${"x".repeat(1 << 16)}\n`);
  for (let n = 1; n <= 16; n += 1) {
    parser.push(piece);
  }
  assert.throws(() => parser.push(piece), { name: "BrokenError" });
});
