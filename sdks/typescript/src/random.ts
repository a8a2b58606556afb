/** Ids nobody else has, and pauses nobody else takes. */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

/** An id for one request. */
export function requestId(): string {
  return randomBytes(16).toString("hex");
}

/** An owner that is this client and no other. */
export function ownerId(): string {
  // The server takes owners of up to 256 bytes.
  const host = [...hostname()].slice(0, 60).join("");
  return `${host}-${process.pid}-${randomBytes(4).toString("hex")}`;
}

/** Between half of `pauseMs` and all of it. */
export function jittered(pauseMs: number): number {
  return pauseMs * (0.5 + 0.5 * Math.random());
}
