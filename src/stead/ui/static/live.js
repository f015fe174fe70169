/**
 * The connection to the server: reads the site, then follows merged changes.
 *
 * A stream carries them where the server has one, short polls elsewhere. A page in the background is not connected. When it
 * is visible again, or the server is back, it continues with its token. The server then sends all that changed since.
 */
import { QUERY, Site } from "./site.js";
import { signal } from "./vendor/signals.js";

/** @typedef {import("./site.js").Message} Message */
/** @typedef {"loading" | "live" | "polling" | "reconnecting" | "paused" | "signed out"} Status */

const POLL_MILLISECONDS = 2000;
const LONGEST_WAIT = 10_000;
const SHORTEST_RELOAD = 2000;

/** A reload may take this share of the time, so that sites that always change do not reload all the time. */
const SHARE_OF_RELOADS = 0.1;

class Failure extends Error {
  /** @param {number} status */
  constructor(status) {
    super();
    this.status = status;
  }
}

export class Live {
  /**
   * @param {string} base the prefix of the API's paths
   * @param {boolean} readsSite whether the page shows all hosts; others follow changes only
   * @param {(message: Message | null, hosts: number[]) => void} changed called after each change; null after a reload
   */
  constructor(base, readsSite, changed) {
    this.base = base;
    this.readsSite = readsSite;
    this.changed = changed;
    /** @type {import("./vendor/signals.js").Signal<Status>} */
    this.status = signal(/** @type {Status} */ ("loading"));
    /** @type {Site | null} */
    this.site = null;
    this.token = "";
    this.polls = false;
    this.wait = 0;
    this.loaded = 0;
    this.loading = 0;
    /** @type {AbortController | null} */
    this.connection = null;
    document.addEventListener("visibilitychange", () => this.run());
    addEventListener("pagehide", () => this.connection?.abort());
  }

  /** Connect if the page is visible, and disconnect if not. */
  run() {
    this.connection?.abort();
    this.connection = null;
    if (document.hidden) {
      this.status.value = "paused";
      return;
    }
    this.connection = new AbortController();
    void this.follow(this.connection.signal);
  }

  /** @param {AbortSignal} ended */
  async follow(ended) {
    while (!ended.aborted) {
      try {
        if (!this.token) await this.load(ended);
        if (this.polls) await this.poll(ended);
        else await this.stream(ended);
      } catch (error) {
        if (ended.aborted) return;
        const status = error instanceof Failure ? error.status : 0;
        if (status === 401 || status === 403) {
          this.status.value = "signed out";
          return;
        }
        if (status === 410 || status === 400) this.token = "";
        else if (status === 503 && !this.polls) this.polls = true;
        else {
          this.polls = false; // the server that is back may have streams
          this.status.value = "reconnecting";
          this.wait = Math.min(LONGEST_WAIT, this.wait * 2 || 500);
        }
        await pause(this.wait, ended);
      }
    }
  }

  /** @param {AbortSignal} ended */
  async load(ended) {
    if (this.readsSite && !this.site) this.status.value = "loading";
    const began = performance.now();
    const read = await this.json(this.readsSite ? `/provider_trees?${QUERY}` : "/changes?merged=true", ended);
    if (this.readsSite) this.site = new Site(read);
    this.token = read.token;
    this.loaded = performance.now();
    this.loading = this.loaded - began;
    this.changed(null, []);
  }

  /** @param {AbortSignal} ended */
  async poll(ended) {
    await this.take(await this.json(this.changes(), ended), ended);
    this.isConnected("polling");
    await pause(POLL_MILLISECONDS, ended);
  }

  /** @param {AbortSignal} ended */
  async stream(ended) {
    const answer = await this.get(this.changes(), "text/event-stream", ended);
    if (!answer.body) throw new Failure(0);
    this.isConnected("live");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (text + value).split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) {
        if (event.startsWith("event: start-over")) throw new Failure(410);
        const data = /^data: (.*)$/m.exec(event);
        if (data) await this.take(JSON.parse(data[1]), ended);
      }
    }
  }

  /** @param {Message} message @param {AbortSignal} ended */
  async take(message, ended) {
    if (message.reload && this.readsSite) {
      const pauses = Math.max(SHORTEST_RELOAD, this.loading / SHARE_OF_RELOADS);
      await pause(this.loaded + pauses - performance.now(), ended);
      await this.load(ended);
      return;
    }
    this.token = message.token;
    if (message.provider_count || message.consumer_count) this.changed(message, this.site?.apply(message) ?? []);
  }

  changes() {
    return `/changes?merged=true&since=${encodeURIComponent(this.token)}`;
  }

  /** @param {Status} status */
  isConnected(status) {
    this.status.value = status;
    this.wait = 0;
  }

  /** @param {string} path @param {AbortSignal} [ended] */
  async json(path, ended) {
    return (await this.get(path, "application/json", ended)).json();
  }

  /** @param {string} path @param {string} accept @param {AbortSignal} [ended] */
  async get(path, accept, ended) {
    const headers = { Accept: accept, "OpenStack-API-Version": "placement 1.39, stead 1.1" };
    const answer = await fetch(this.base + path, { headers, signal: ended ?? null, credentials: "same-origin" });
    if (!answer.ok) throw new Failure(answer.status);
    return answer;
  }
}

/** @param {number} milliseconds @param {AbortSignal} ended @returns {Promise<void>} */
function pause(milliseconds, ended) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      ended.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    ended.addEventListener("abort", done);
    if (ended.aborted) done();
  });
}
