/** From URL to URL: one is asked until it does not answer, or another one leads. */

import { normalUrl, type Settings } from "./settings.js";

/**
 * Where the leader cannot be reached by us, those that follow it pass requests on. For so long they are asked to do so at
 * once, instead of saying first that they do not lead.
 */
const PASSED_ON_FOR_MS = 30_000;

/** The URLs of one server, or of several that are one to their clients. */
export class Routes {
  readonly #given: readonly string[];
  readonly #isDirect: boolean;
  readonly #followsAny: boolean;
  /** Who is asked first: the one that answered last. */
  chosen: string;
  /** Until then nobody is asked who leads. */
  passedOnUntil = 0;

  constructor({ urls, direct, followAnyLeader }: Pick<Settings, "urls" | "direct" | "followAnyLeader">) {
    this.#given = urls;
    this.#isDirect = direct;
    this.#followsAny = followAnyLeader;
    this.chosen = this.after("");
  }

  /** How many there are. */
  get count(): number {
    return this.#given.length;
  }

  /** A request's way, which begins at the one that answered last. */
  begin(): Trip {
    return new Trip(this, this.chosen, this.#isDirect && performance.now() >= this.passedOnUntil);
  }

  /** The next one in the order they were given; the first after one that was not. */
  after(url: string): string {
    return this.#given[(this.#given.indexOf(url) + 1) % this.#given.length] ?? "";
  }

  /** The first after this one that is not among those. */
  newAfter(url: string, tried: ReadonlySet<string>): string | undefined {
    let next = url;
    for (let n = 0; n < this.#given.length; n += 1) {
      next = this.after(next);
      if (!tried.has(next)) {
        return next;
      }
    }
    return undefined;
  }

  /** Where a server says the leader is, if we go there: credentials go nowhere else. */
  leader(said: string | string[] | undefined): string | undefined {
    let url: URL;
    try {
      url = new URL(String(said));
    } catch {
      return undefined;
    }
    if ((url.protocol !== "http:" && url.protocol !== "https:") || url.username !== "" || url.password !== "") {
      return undefined;
    }
    const leader = normalUrl(url);
    if (this.#given.includes(leader)) {
      return leader;
    }
    // Whoever speaks TLS with all servers does not begin to speak without.
    const isSafe = url.protocol === "https:" || this.#given.some((known) => !known.startsWith("https:"));
    return this.#followsAny && isSafe ? leader : undefined;
  }
}

/**
 * A request's way from URL to URL, as long as it is certain that nothing was done: at most once to each of them, and once
 * more to one that is to pass it on.
 */
export class Trip {
  readonly #routes: Routes;
  readonly #tried: Set<string>;
  /** The last that said that it does not lead. */
  #follower: string | undefined;
  url: string;
  /** Whoever does not lead is to say so, instead of passing the request on. */
  isDirect: boolean;

  constructor(routes: Routes, url: string, isDirect: boolean) {
    this.#routes = routes;
    this.url = url;
    this.#tried = new Set([this.url]);
    this.isDirect = isDirect;
  }

  /** The one asked is asked first from now on. */
  wasAnswered(): void {
    this.#routes.chosen = this.url;
    if (this.#follower !== undefined && !this.isDirect) {
      this.#routes.passedOnUntil = performance.now() + PASSED_ON_FOR_MS;
    }
  }

  /** Whoever begins from now on begins at the next one. Of many that fail at once, only the first moves on. */
  failed(): void {
    if (this.#routes.chosen === this.url) {
      this.#routes.chosen = this.#routes.after(this.url);
    }
  }

  /** No connection came about: goes on, if there is another one to ask. */
  goOn(): boolean {
    return this.#next(undefined);
  }

  /** The one asked does not lead, and says who does if it knows: goes on, if there is another one to ask. */
  goOnFromFollower(leader: string | string[] | undefined): boolean {
    this.#follower = this.url;
    return this.#next(this.#routes.leader(leader));
  }

  #next(leader: string | undefined): boolean {
    this.failed();
    const isNew = leader !== undefined && !this.#tried.has(leader);
    const next = isNew ? leader : this.#routes.newAfter(this.url, this.#tried);
    if (next !== undefined) {
      this.#tried.add(next);
      this.url = next;
      return true;
    }
    // Nobody whom we can reach leads: one of them is to pass it on.
    if (this.#follower === undefined || !this.isDirect) {
      return false;
    }
    this.url = this.#follower;
    this.isDirect = false;
    return true;
  }
}
