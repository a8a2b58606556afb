/** What is given at run time may be anything: what makes no sense is refused before anything is sent. */

import { inspect } from "node:util";

import { InvalidError } from "./error.js";

/** The longest timer of Node: a longer one would ring at once. */
export const TIMER_MAX_MS = 2 ** 31 - 1;

/** The name, if it is one: anything else would be sent as text, and two that forgot a name would share a lock. */
export function checkedName(name: unknown): string {
  if (typeof name !== "string" || name === "") {
    throw new InvalidError(`a lock must have a name, a text that is not empty, got ${inspect(name)}`);
  }
  return name;
}

/** Refuses options that nobody knows: whoever writes `ttl` instead of `ttlMs` should learn of it. */
export function checkOptions(what: string, options: object, known: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) {
      throw new InvalidError(`${what} has no option ${JSON.stringify(name)}; there are ${known.join(", ")}`);
    }
  }
}

/** A number in these bounds, or nothing. */
export function checkNumber(name: string, value: unknown, from: number, to: number, whole = false): void {
  if (value === undefined) {
    return;
  }
  const isNumber = typeof value === "number" && value >= from && value <= to && (!whole || Number.isInteger(value));
  if (!isNumber) {
    const kind = whole ? "a whole number" : to === Number.MAX_VALUE ? "a finite number" : "a number";
    const least = from === Number.MIN_VALUE ? "more than 0" : `at least ${from}`;
    const most = to >= Number.MAX_VALUE ? "" : ` and at most ${to}`;
    throw new InvalidError(`${name} must be ${kind}, ${least}${most}, got ${inspect(value)}`);
  }
}
