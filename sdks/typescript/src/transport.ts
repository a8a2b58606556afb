/** HTTP: one request, one answer, and what it means that there was none. */

import * as http from "node:http";
import * as https from "node:https";
import { inspect } from "node:util";

import type { Failure } from "./api.js";
import { TIMER_MAX_MS } from "./check.js";
import { BrokenError, FailedError, ForeignError, InvalidError, SliceError, TlsError, UnreachableError } from "./error.js";
import { Failover } from "./failover.js";
import { Routes, type Trip } from "./route.js";
import { type Settings, socketPath } from "./settings.js";

/** A page of 1000 locks, each with everything it can show, is far smaller. */
const ANSWER_BYTES_MAX = 64 << 20;
/**
 * The server takes 64 KiB unless it is told otherwise. Whoever sends far more may be hung up on before all of it is sent, and
 * that looks like any connection that broke: it would be tried again and again.
 */
const REQUEST_CHARS_MAX = 1 << 20;
/** How much of an answer that is none of ours is shown. */
const FOREIGN_CHARS_SHOWN = 200;
/** A peer that is gone without a word is noticed after about 20 s, also while we wait in a queue. */
const KEEPALIVE_MS = 10_000;
/** The server closes idle connections after 2 min: we do before it does, and so seldom send into a closed one. */
const IDLE_MAX_MS = 30_000;

/** One request. */
export interface Question {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  body?: unknown;
  /** How much longer than usual the answer may take. */
  longerMs?: number | undefined;
  /** Breaks the request off; the call fails with its reason. */
  signal?: AbortSignal | undefined;
  headers?: http.OutgoingHttpHeaders;
}

/** A whole answer. */
export interface Answer {
  status: number;
  body: string;
}

/** Where the servers are and how to talk to them. */
export class Transport {
  /** What the servers say of leader changes. */
  readonly failover = new Failover();
  readonly #settings: Settings;
  readonly #agents: { http: http.Agent; https: https.Agent };
  readonly #routes: Routes;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#routes = new Routes(settings);
    const kept = { keepAlive: true, timeout: IDLE_MAX_MS };
    this.#agents = { http: new http.Agent(kept), https: new https.Agent({ ...kept, ...settings.tls }) };
  }

  /** Sends a request and waits for the whole answer. */
  async call(question: Question): Promise<Answer> {
    const patienceMs = this.#settings.timeoutMs + (question.longerMs ?? 0);
    return await this.#somewhere(question, async ({ url, isDirect }, signal) => {
      const headers = { ...question.headers, ...(isDirect ? { "leasehold-direct": "1" } : {}) };
      const response = await this.#send(url, { ...question, headers }, signal);
      this.failover.learn(response.headers);
      const answer = { status: response.statusCode ?? 0, body: await text(response, signal) };
      return { answer, leader: response.headers["leasehold-leader"] };
    }, patienceMs);
  }

  /** Asks for a stream that has no end. It is broken off by `signal` of the question. */
  async stream(question: Question): Promise<http.IncomingMessage> {
    const headers = { accept: "text/event-stream", ...question.headers };
    let stream: http.IncomingMessage | undefined;
    // Every server tells of events, and may do so itself: nobody is asked who leads.
    const answer = await this.#somewhere(question, async ({ url }, signal) => {
      const response = await this.#send(url, { ...question, headers }, signal);
      const status = response.statusCode ?? 0;
      if (isSuccess(status)) {
        stream = response;
        return { answer: { status, body: "" }, leader: undefined };
      }
      return { answer: { status, body: await text(response, signal) }, leader: response.headers["leasehold-leader"] };
    }, this.#settings.timeoutMs);
    if (stream === undefined) {
      throw failure(answer);
    }
    return destroyedBy(question.signal, stream);
  }

  /** Closes connections that nobody uses. */
  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }

  /** How many URLs there are. */
  get urls(): number {
    return this.#routes.count;
  }

  /**
   * Asks one URL after the other, as long as it is certain that nothing was done: no connection came about, or the server
   * says that another one leads. Anything else is the answer; the next request may go elsewhere then.
   */
  async #somewhere(
    question: Question,
    ask: (trip: Trip, signal: AbortSignal) => Promise<{ answer: Answer; leader: string | string[] | undefined }>,
    patienceMs: number,
  ): Promise<Answer> {
    const trip = this.#routes.begin();
    const inVain: string[] = [];
    let misfit: TlsError | undefined;
    for (;;) {
      try {
        const { answer, leader } = await inTime(patienceMs, question.signal, (signal) => ask(trip, signal));
        if (isNotLeader(answer)) {
          if (trip.goOnFromFollower(leader)) {
            continue;
          }
        } else if (isOfGateway(answer.status)) {
          trip.failed();
        } else {
          trip.wasAnswered();
        }
        return answer;
      } catch (error) {
        if (error instanceof TlsError) {
          misfit ??= error;
        } else if (!(error instanceof UnreachableError)) {
          // Of a part of a wait nobody was to answer before.
          if (error instanceof BrokenError && !(error instanceof SliceError)) {
            // Also a renewal that was broken off because it took too long: the next one may be faster.
            trip.failed();
          }
          throw error;
        }
        const { url } = trip;
        if (!trip.goOn()) {
          // That a server is not there may change; this does not, so it is what to mend.
          throw misfit ?? (error as UnreachableError).after(inVain);
        }
        inVain.push(url);
      }
    }
  }

  #send(base: string, question: Question, signal: AbortSignal): Promise<http.IncomingMessage> {
    const unixPath = socketPath(base);
    const url = new URL(unixPath === undefined ? base : "http://localhost");
    const isTls = url.protocol === "https:";
    const { apiKey } = this.#settings;
    const body = question.body === undefined ? undefined : json(question.body);
    // Not the URL itself: `https.request` of Node 18 takes the path of that, whatever the options say.
    const options: https.RequestOptions = {
      protocol: url.protocol,
      hostname: url.hostname.replace(/^\[|\]$/g, ""),
      ...(url.port === "" ? {} : { port: url.port }),
      method: question.method,
      // As it is: `URL` would take a step of dots, even of escaped ones, for a way up.
      path: url.pathname.replace(/\/$/, "") + question.path,
      agent: isTls ? this.#agents.https : this.#agents.http,
      ...(unixPath === undefined ? {} : { socketPath: unixPath }),
      headers: {
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        "content-length": body === undefined ? 0 : Buffer.byteLength(body),
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        ...question.headers,
      },
    };
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const request = isTls ? https.request(options) : http.request(options);
      let isConnected = false;
      const late = setTimeout(() => {
        request.destroy(new UnreachableError(base, `no connection within ${this.#settings.connectTimeoutMs} ms`));
      }, this.#settings.connectTimeoutMs);
      const connected = (): void => {
        isConnected = true;
        clearTimeout(late);
      };
      const abort = (): void => void request.destroy(signal.reason as Error);
      signal.addEventListener("abort", abort);
      request.on("socket", (socket) => {
        socket.setKeepAlive(true, KEEPALIVE_MS);
        if (request.reusedSocket) {
          connected();
        } else {
          socket.once(isTls ? "secureConnect" : "connect", connected);
        }
      });
      request.on("close", () => {
        clearTimeout(late);
        signal.removeEventListener("abort", abort);
      });
      request.on("error", (error) => {
        reject(signal.aborted ? signal.reason : failed(base, isConnected, error));
      });
      request.on("response", resolve);
      request.end(body);
    });
  }

  /** Nothing that inspects a client sees its key. */
  [inspect.custom](): string {
    return `Transport { urls: ${this.#settings.urls.join(", ")} }`;
  }
}

/** As it is sent. */
function json(body: unknown): string {
  let text: string;
  try {
    text = JSON.stringify(body);
  } catch (error) {
    throw new InvalidError(`cannot be sent as JSON: ${(error as Error).message.split("\n")[0]}`);
  }
  if (text.length > REQUEST_CHARS_MAX) {
    throw new InvalidError(`a request of ${text.length} characters is too large: at most ${REQUEST_CHARS_MAX} are sent`);
  }
  return text;
}

/** What a gateway says whose server is not there. Another URL may be that of one whose server is. */
function isOfGateway(status: number): boolean {
  return status === 502 || status === 503 || status === 504;
}

/** Runs `work` with a signal that fires when `signal` does, or with a `BrokenError` when the patience is over. */
async function inTime<T>(
  patienceMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal?.reason);
  if (signal?.aborted) {
    abort();
  }
  signal?.addEventListener("abort", abort);
  const late = (): void => controller.abort(new BrokenError(`nothing came within ${patienceMs} ms`));
  const timer = setTimeout(late, Math.min(patienceMs, TIMER_MAX_MS));
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/** The stream, which ends when `signal` fires. */
function destroyedBy(signal: AbortSignal | undefined, stream: http.IncomingMessage): http.IncomingMessage {
  const destroy = (): void => void stream.destroy();
  signal?.addEventListener("abort", destroy);
  stream.once("close", () => signal?.removeEventListener("abort", destroy));
  if (signal?.aborted) {
    destroy();
  }
  return stream;
}

/** The whole body. */
function text(response: http.IncomingMessage, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    let nBytes = 0;
    const broken = (why: string): void => {
      response.destroy();
      reject(signal.aborted ? signal.reason : new BrokenError(why));
    };
    response.on("data", (piece: Buffer) => {
      nBytes += piece.length;
      if (nBytes > ANSWER_BYTES_MAX) {
        broken("the answer is too long");
      } else {
        pieces.push(piece);
      }
    });
    response.on("end", () => resolve(Buffer.concat(pieces).toString("utf8")));
    response.on("error", (error) => broken(words(error)));
    response.on("close", () => broken("the connection was closed"));
  });
}

/** The codes of certificates that are not trusted, are for another host, or are not valid now. */
const UNTRUSTED = /^(?!ERR_SSL).*CERT|UNABLE_TO_VERIFY_LEAF_SIGNATURE|^INVALID_CA$|^HOSTNAME_MISMATCH$|^ERR_TLS_CERT_ALTNAME/;
/** How a server that speaks TLS begins to refuse what is none. */
const TLS_ALERT = 0x15;

function failed(base: string, isConnected: boolean, error: Error): Error {
  if (error instanceof UnreachableError) {
    return error;
  }
  const { code = "", rawPacket } = error as NodeJS.ErrnoException & { rawPacket?: Buffer };
  if (UNTRUSTED.test(code)) {
    const hint = "Is it signed by a certificate in caFile (LEASEHOLD_CA_FILE)?";
    return new TlsError(`the certificate of ${base} cannot be verified: ${error.message.split("\n")[0]}. ${hint}`);
  }
  if (code.startsWith("HPE_") && rawPacket?.[0] === TLS_ALERT) {
    return new TlsError(`the server at ${base} speaks TLS: use https (LEASEHOLD_URL)`);
  }
  return isConnected ? new BrokenError(words(error)) : new UnreachableError(base, words(error));
}

const WORDS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "the connection was reset",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to the network",
  ENOTFOUND: "host not found",
  EAI_AGAIN: "the host's name cannot be looked up now",
  EPIPE: "the connection was closed",
  ETIMEDOUT: "timed out",
};

function words(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  return (code === undefined ? undefined : WORDS[code]) ?? (error.message || (code ?? "unknown error"));
}

export function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function isNotLeader(answer: Answer): boolean {
  const no = answer.status === 421 ? failure(answer) : undefined;
  return no instanceof FailedError && no.code === "NOT_LEADER";
}

/** What an answer says that is no 2xx. */
export function failure({ status, body }: Answer): FailedError | ForeignError {
  const said = parse(body);
  if (isFailure(said)) {
    return new FailedError(status, said.code === "NOT_LEADER" ? { ...said, retryable: true } : said);
  }
  return foreign({ status, body });
}

/** Ids that prove something: an answer that is only nearly one of ours may have them. */
const SECRETS = /("(?:lease_id|session_id)"\s*:\s*)"[^"]*"?/g;

export function foreign({ status, body }: Answer): ForeignError {
  return new ForeignError(status, body.replace(SECRETS, '$1"..."').slice(0, FOREIGN_CHARS_SHOWN));
}

/** The JSON, or nothing. */
export function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

function isFailure(said: unknown): said is Failure {
  const failure = said as Partial<Failure> | undefined | null;
  return typeof failure?.code === "string" && typeof failure.error === "string";
}
