/** Where the server is and who we are: from arguments, files and the environment. */

import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

import { checkNumber, checkOptions, TIMER_MAX_MS } from "./check.js";
import type { Clock } from "./clock.js";
import { InvalidError } from "./error.js";

/** How to reach a server. What is left out comes from the environment, or has a default. */
export interface ClientOptions {
  /**
   * One URL (`https://`, `http://` or `unix:/path`), or several separated by commas, or a list. Default: `LEASEHOLD_URL`, or
   * `http://127.0.0.1:8080`.
   */
  url?: string | readonly string[];
  /**
   * Ask a server that does not lead to say who does, and go there, instead of letting it pass requests on. Where the leader is
   * at none of the URLs, it is asked to pass them on all the same. Default: true if several URLs are given.
   */
  direct?: boolean;
  /**
   * Go to a leader whose URL was not given, too. Then whoever answers at one of the URLs decides where requests, with the ids
   * of leases in them, are sent; so it is refused together with an API key or a certificate. It does not lead from https to
   * http.
   */
  followAnyLeader?: boolean;
  /** The namespace of every lock. Default: `LEASEHOLD_NAMESPACE`, or the server's default. */
  namespace?: string;
  /** The owner of every lock. Default: host, process and random digits, so that no two clients are one owner. */
  owner?: string;
  /** Sent as `Authorization: Bearer` with every request. Default: `LEASEHOLD_API_KEY`. */
  apiKey?: string;
  /** A file with the API key. It takes precedence over the environment. Default: `LEASEHOLD_API_KEY_FILE`. */
  apiKeyFile?: string;
  /** Send the API key over plain http to another machine too. Everybody in between can read it. */
  insecure?: boolean;
  /** A file with the certificates to trust, in PEM. Default: `LEASEHOLD_CA_FILE`, or those that Node trusts. */
  caFile?: string;
  /** A file with the client's certificate, in PEM. Default: `LEASEHOLD_CLIENT_CERT_FILE`. */
  clientCertFile?: string;
  /** A file with the key of the client's certificate, in PEM. Default: `LEASEHOLD_CLIENT_KEY_FILE`. */
  clientKeyFile?: string;
  /** How long an answer may take, beyond what was asked to be waited. Default: 6 s, longer than a follower holds a request. */
  timeoutMs?: number;
  /** How long a connection may take. Default: 3 s. */
  connectTimeoutMs?: number;
  /** Another clock, in tests. */
  clock?: Clock;
}

/** Where to send requests, and with what. */
export interface Settings {
  /** Each without a slash at its end. There is at least one. */
  urls: readonly string[];
  direct: boolean;
  followAnyLeader: boolean;
  apiKey: string | undefined;
  tls: { ca?: Buffer; cert?: Buffer; key?: Buffer };
  timeoutMs: number;
  connectTimeoutMs: number;
}

const KNOWN: readonly (keyof ClientOptions)[] = [
  "url", "direct", "followAnyLeader", "namespace", "owner", "apiKey", "apiKeyFile", "insecure", "caFile", "clientCertFile",
  "clientKeyFile", "timeoutMs", "connectTimeoutMs", "clock",
];

type Environment = Readonly<Record<string, string | undefined>>;

const URL_DEFAULT = "http://127.0.0.1:8080";
/** A server that follows may hold a request for 5 s before it says that nobody leads. */
const TIMEOUT_DEFAULT_MS = 6_000;

/** The settings, if they make sense. */
export function settings(options: ClientOptions, environment: Environment = process.env): Settings {
  checkOptions("a client", options, KNOWN);
  checkNumber("timeoutMs", options.timeoutMs, Number.MIN_VALUE, TIMER_MAX_MS);
  checkNumber("connectTimeoutMs", options.connectTimeoutMs, Number.MIN_VALUE, TIMER_MAX_MS);
  const urls = urlList(options.url ?? nonEmpty(environment["LEASEHOLD_URL"]) ?? URL_DEFAULT);
  const apiKey = findKey(options, environment);
  if (apiKey !== undefined && options.insecure !== true) {
    urls.forEach(refusePlainHttp);
  }
  const tls = urls.some((url) => url.startsWith("https:")) ? readTls(options, environment) : {};
  const { timeoutMs = TIMEOUT_DEFAULT_MS, connectTimeoutMs = 3_000, followAnyLeader = false } = options;
  const clientCertFile = options.clientCertFile ?? nonEmpty(environment["LEASEHOLD_CLIENT_CERT_FILE"]);
  if (followAnyLeader && (apiKey !== undefined || clientCertFile !== undefined)) {
    const why = "an API key and a client certificate are sent only to servers whose URLs are given";
    throw new InvalidError(`${why}: give all of them instead of setting followAnyLeader`);
  }
  const direct = options.direct ?? (urls.length > 1 || followAnyLeader);
  return { urls, direct, followAnyLeader, apiKey, tls, timeoutMs, connectTimeoutMs };
}

/** Whom to trust, and what to show. */
function readTls(options: ClientOptions, environment: Environment): Settings["tls"] {
  const caFile = options.caFile ?? nonEmpty(environment["LEASEHOLD_CA_FILE"]);
  const certFile = options.clientCertFile ?? nonEmpty(environment["LEASEHOLD_CLIENT_CERT_FILE"]);
  const keyFile = options.clientKeyFile ?? nonEmpty(environment["LEASEHOLD_CLIENT_KEY_FILE"]);
  if ((certFile === undefined) !== (keyFile === undefined)) {
    throw new InvalidError("clientCertFile and clientKeyFile must be given together");
  }
  return {
    ...(caFile === undefined ? {} : { ca: readCa(caFile) }),
    ...(certFile === undefined ? {} : { cert: readFile("clientCertFile", certFile) }),
    ...(keyFile === undefined ? {} : { key: readFile("clientKeyFile", keyFile) }),
  };
}

function urlList(given: string | readonly string[]): string[] {
  const texts = (typeof given === "string" ? [given] : given).flatMap((text) => text.split(","));
  if (texts.length === 0) {
    throw new InvalidError("no URL is given");
  }
  const urls = texts.map((text) => checkedUrl(text.trim()));
  const places = urls.map((url) => socketPath(url) ?? url);
  const twice = texts.find((_, n) => places.indexOf(places[n] ?? "") !== n);
  if (twice !== undefined) {
    throw new InvalidError(`${JSON.stringify(twice.trim())} is given twice`);
  }
  return urls;
}

function checkedUrl(text: string): string {
  if (text === "") {
    throw new InvalidError("a URL is empty: several are written with one comma in between, http://a,http://b");
  }
  if (text.startsWith("unix:")) {
    if (socketPath(text) === "") {
      throw new InvalidError(`${JSON.stringify(text)} has no path: write unix:/run/leasehold.sock`);
    }
    return text;
  }
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new InvalidError(`${JSON.stringify(text)} is not a URL`);
  }
  // A password in a URL ends up in messages; so the URL is not shown here either.
  if (url.username !== "" || url.password !== "") {
    throw new InvalidError("a URL must have no user and no password: use apiKey");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new InvalidError(`${JSON.stringify(text)} must begin with http://, https:// or unix:`);
  }
  if (url.search !== "" || url.hash !== "") {
    throw new InvalidError(`${JSON.stringify(text)} must have no query and no fragment`);
  }
  return normalUrl(url);
}

/** The path of a Unix socket, if it is one: `unix:/run/a.sock`, or `unix:///run/a.sock`. */
export function socketPath(url: string): string | undefined {
  return url.startsWith("unix:") ? url.slice("unix:".length).replace(/^\/\//, "") : undefined;
}

/** The same text for the same place. */
export function normalUrl(url: URL): string {
  return (url.origin + url.pathname).replace(/\/+$/, "");
}

function findKey(options: ClientOptions, environment: Environment): string | undefined {
  if (options.apiKey !== undefined) {
    return checkedKey(options.apiKey);
  }
  const file = options.apiKeyFile ?? nonEmpty(environment["LEASEHOLD_API_KEY_FILE"]);
  if (file !== undefined) {
    return checkedKey(readFile("apiKeyFile", file).toString("utf8").trim());
  }
  const key = nonEmpty(environment["LEASEHOLD_API_KEY"]);
  return key === undefined ? undefined : checkedKey(key);
}

/** The key itself is in no message. */
function checkedKey(key: string): string {
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new InvalidError("the API key is empty or cannot be sent in a header");
  }
  return key;
}

function refusePlainHttp(text: string): void {
  if (socketPath(text) !== undefined) {
    return;
  }
  const url = new URL(text);
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    throw new InvalidError(`the API key would be sent unencrypted to ${text}: use https, or set insecure`);
  }
}

export function isLoopback(host: string): boolean {
  // `URL` writes every spelling of an IPv4 address as four decimal numbers.
  return /^(localhost|.+\.localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(host);
}

/** Node takes a file without a certificate for one that trusts nobody. */
function readCa(path: string): Buffer {
  const ca = readFile("caFile", path);
  try {
    new X509Certificate(ca);
  } catch {
    throw new InvalidError(`caFile ${path} has no certificate in it that can be read: it must be PEM (LEASEHOLD_CA_FILE)`);
  }
  return ca;
}

function readFile(option: string, path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new InvalidError(`cannot read ${option} ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === "" ? undefined : text;
}
