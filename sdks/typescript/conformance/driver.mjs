// Does what the conformance harness says, by this SDK: see ../../conformance/PROTOCOL.md. Run `npm run build` first.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

import * as leasehold from "../dist/index.js";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

const clients = new Map();
const leases = new Map();
const sessions = new Map();
/** The commands that can be cancelled, by their id. */
const waiting = new Map();

function say(message) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Keeps what a command made under the harness's name for it, and tells when it is lost. */
function keep(kept, kind, name, holding) {
  kept.set(name, holding);
  const { signal } = holding;
  const lost = () => say({ event: "lost", [kind]: name, reason: signal.reason.reason.replaceAll("-", "_") });
  if (signal.aborted) {
    lost();
  } else {
    signal.addEventListener("abort", lost);
  }
}

function keepLease(command, lease) {
  keep(leases, "lease", command.lease, lease);
  return { fencing_token: lease.fencingToken };
}

async function cancellable(id, ask) {
  const controller = new AbortController();
  waiting.set(id, controller);
  try {
    return await ask(controller.signal);
  } finally {
    waiting.delete(id);
  }
}

const commands = {
  hello: () => ({ sdk: "typescript", version, protocol: 1 }),

  connect({ client, urls, owner, namespace, api_key, timeout_ms }) {
    const options = { url: urls, owner, namespace, apiKey: api_key, timeoutMs: timeout_ms };
    clients.set(client, new leasehold.Client(options));
    return {};
  },

  async acquire(command) {
    const { id, client, lock, ttl_ms, wait_ms, margin_ms, shared, limit, metadata, grace_ms, session } = command;
    const options = { waitMs: wait_ms, shared, limit, metadata, graceMs: grace_ms };
    const lease = await cancellable(id, (signal) =>
      session === undefined
        ? clients.get(client).lock(lock, { ...options, ttlMs: ttl_ms, marginMs: margin_ms, signal }).acquire()
        : sessions.get(session).lock(lock, { ...options, signal }).acquire(),
    );
    return keepLease(command, lease);
  },

  async acquire_all({ id, client, lease, locks, ttl_ms, wait_ms, margin_ms }) {
    const wanted = locks.map(({ lock, ...sharing }) => ({ name: lock, ...sharing }));
    const options = { ttlMs: ttl_ms, waitMs: wait_ms, marginMs: margin_ms };
    const set = await cancellable(id, (signal) =>
      clients.get(client).locks(wanted, { ...options, signal }).acquire(),
    );
    keep(leases, "lease", lease, set);
    return { fencing_tokens: locks.map(({ lock }) => set.fencingToken(lock)) };
  },

  check: ({ lease }) => ({ held: leases.get(lease).held }),

  async release({ lease }) {
    await leases.get(lease).release();
    return {};
  },

  cancel({ command }) {
    waiting.get(command)?.abort(new Cancelled());
    return {};
  },

  async session_open({ client, session, ttl_ms, margin_ms }) {
    const opened = await clients.get(client).openSession({ ttlMs: ttl_ms, marginMs: margin_ms });
    keep(sessions, "session", session, opened);
    return {};
  },

  async session_close({ session }) {
    await sessions.get(session).close();
    return {};
  },

  async write({ lease, url, value, checked }) {
    const held = leases.get(lease);
    if (checked) {
      held.check();
    }
    const body = JSON.stringify({ fencing_token: held.fencingToken, value });
    const headers = { "content-type": "application/json" };
    const { status } = await fetch(url, { method: "POST", headers, body });
    return { status };
  },

  async watch({ client, watch, prefix }) {
    const events = clients.get(client).events({ prefix });
    await events.connect();
    void tell(watch, events);
    return {};
  },

  async campaign(command) {
    const { id, client, election, value, ttl_ms } = command;
    const lease = await cancellable(id, (signal) =>
      clients.get(client).election(election, { ttlMs: ttl_ms }).campaign(value, { signal }),
    );
    return keepLease(command, lease);
  },

  async leader({ client, election }) {
    const leader = await clients.get(client).election(election).leader();
    if (leader === undefined) {
      return { leader: null };
    }
    const { owner, value, fencingToken } = leader;
    return { leader: { owner, value, fencing_token: fencingToken } };
  },
};

async function tell(watch, events) {
  for await (const watched of events) {
    if (watched.state !== undefined) {
      continue;
    }
    if (watched.gap) {
      say({ event: "gap", watch, why: watched.reason });
    } else {
      const { kind, lock_name, owner_id, fencing_token } = watched.event;
      say({ event: "happened", watch, kind, lock: lock_name, owner: owner_id, fencing_token, id: watched.id });
    }
  }
}

/** The reason of a cancelled wait. */
class Cancelled extends Error {}

function described(error) {
  const { message } = error;
  if (error instanceof leasehold.NotAcquiredError) {
    const { reason } = error.refusal;
    return { name: reason === "WAIT_TIMEOUT" ? "wait_timeout" : "held", message, reason };
  }
  if (error instanceof leasehold.FailedError) {
    const { code } = error;
    return { name: code === "NO_SUCH_SESSION" ? "session_over" : "failed", message, code };
  }
  const names = [
    [leasehold.NotReleasedError, "not_released"],
    [leasehold.LostError, "lost"],
    [leasehold.UnreachableError, "unreachable"],
    [leasehold.BrokenError, "broken"],
    [leasehold.InvalidError, "invalid"],
    [leasehold.LeaseholdError, "failed"],
    [Cancelled, "cancelled"],
  ];
  const found = names.find(([kind]) => error instanceof kind);
  return { name: found?.[1] ?? "internal", message };
}

async function answer(command) {
  const { id } = command;
  try {
    const run = commands[command.do];
    if (run === undefined) {
      say({ id, error: { name: "unsupported", message: `unknown command ${command.do}` } });
    } else {
      say({ id, ok: await run(command) });
    }
  } catch (error) {
    say({ id, error: described(error) });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const command = JSON.parse(line);
  if (command.do === "exit") {
    process.exit(0);
  }
  void answer(command);
});
lines.on("close", () => process.exit(0));
