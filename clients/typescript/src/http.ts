// HTTP over TCP, TLS and Unix sockets: what the client of a node needs of it.

import { readFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { isIP } from "node:net";

import { clock } from "./clock.js";
import { Invalid, NoAnswer, Unauthorized } from "./errors.js";

/** The longest body. */
const MOST_BYTES = 1 << 20;
/**
 * The most requests at a time to an endpoint, besides campaigns. A client of many elections does not open a connection for
 * each of them. The others wait in order, and their timeouts begin when they are sent: a slow node gets no request twice.
 */
const MOST_REQUESTS = 16;
/** The idle connections of an endpoint. A node closes an idle connection after 65 s. */
const POOL = { keepAlive: true, maxFreeSockets: 8, timeout: 50_000 };

/** A JSON object. Integers that a double cannot hold are texts. */
export type Body = Record<string, unknown>;

/** The settings that all endpoints share. */
export interface Credentials {
  readonly tokenFile: string | undefined;
  readonly caFile: string | undefined;
  readonly allowPlain: boolean;
}

/** The response of a node. */
export interface Answer {
  readonly status: number;
  readonly body: Body;
  /** A moment before the request was sent. */
  readonly sentMs: number;
}

/** A response that is a stream of JSON objects, one per line. */
export interface Stream {
  readonly status: number;
  readonly objects: AsyncGenerator<Body, void, undefined>;
  close(): void;
}

/** Parses JSON without rounding integers of 16 digits and more: they become texts. */
export function parseObject(text: string): Body {
  const exact = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, (token) =>
    /^-?\d{16,}$/.test(token) ? `"${token}"` : token,
  );
  const value: unknown = JSON.parse(exact);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error("the response is not a JSON object");
  }
  return value as Body;
}

/** An integer of an object. */
export function integer(body: Body, key: string): bigint {
  const value = body[key];
  if ((typeof value === "number" && Number.isSafeInteger(value)) || typeof value === "string") {
    try {
      return BigInt(value);
    } catch {
      // Not an integer.
    }
  }
  throw new NoAnswer(`the node has sent no number \`${key}\``);
}

/** A text of an object. */
export function text(body: Body, key: string): string {
  const value = body[key];
  if (typeof value !== "string") {
    throw new NoAnswer(`the node has sent no text \`${key}\``);
  }
  return value;
}

/** The address of a node: `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`. */
export class Endpoint {
  /** Whether this is the socket of a node on this machine. */
  readonly isLocal: boolean;
  readonly #target: http.RequestOptions;
  readonly #module: typeof http | typeof https;
  readonly #agent: http.Agent;
  readonly #credentials: Credentials;
  #ca: string | undefined;
  #requests = 0;
  readonly #queue: (() => void)[] = [];

  constructor(
    readonly address: string,
    credentials: Credentials,
  ) {
    this.#credentials = credentials;
    this.isLocal = address.startsWith("unix:");
    if (this.isLocal) {
      const socketPath = address.slice("unix:".length);
      if (!socketPath.startsWith("/")) {
        throw new Invalid(`endpoint ${address}: a socket is like unix:/run/suffrage/suffrage.sock`);
      }
      this.#target = { socketPath, host: "localhost" };
      this.#module = http;
      this.#agent = new http.Agent(POOL);
      return;
    }
    const url = parseUrl(address);
    const hostname = url.hostname.replace(/^\[|\]$/g, "");
    const encrypted = url.protocol === "https:";
    const stays = hostname === "localhost" || hostname === "::1" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
    if (!encrypted && !stays && credentials.tokenFile !== undefined && !credentials.allowPlain) {
      throw new Invalid(
        `endpoint ${address}: the token would leave this machine without encryption; use https://, or set ` +
          "allowPlain if a proxy or the network encrypts",
      );
    }
    // A server name is a name, not an address.
    const servername = isIP(hostname) === 0 ? hostname : "";
    this.#target = { hostname, port: url.port || (encrypted ? 443 : 80), ...(encrypted ? { servername } : {}) };
    this.#module = encrypted ? https : http;
    this.#agent = encrypted ? new https.Agent(POOL) : new http.Agent(POOL);
  }

  #options(path: string, data: Buffer | undefined, fresh: boolean): https.RequestOptions {
    const headers: http.OutgoingHttpHeaders =
      data === undefined ? {} : { "Content-Type": "application/json", "Content-Length": data.length };
    const method = data === undefined ? "GET" : "POST";
    const { tokenFile, caFile } = this.#credentials;
    if (tokenFile !== undefined) {
      headers["Authorization"] = `Bearer ${readToken(tokenFile)}`;
    }
    if (caFile !== undefined && this.#module === https) {
      this.#ca ??= readCertificates(caFile);
    }
    const ca = this.#ca === undefined ? {} : { ca: this.#ca };
    return { ...this.#target, ...ca, method, path, headers, agent: fresh ? false : this.#agent };
  }

  /** Sends a request, a GET without a body, and resolves to the head of its response and a moment before it was sent. */
  #send(
    path: string,
    body: Body | undefined,
    timeoutMs: number,
    fresh: boolean,
    signal?: AbortSignal,
  ): Promise<Response> {
    const data = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const options = this.#options(path, data, fresh);
    return new Promise((resolve, reject) => {
      const sentMs = clock.atLeast();
      const request = this.#module.request(options);
      const fail = (error: Error): void => {
        request.destroy();
        settle();
        reject(signal?.aborted ? signal.reason : new NoAnswer(`${this.address}: ${error.message || error.name}`));
      };
      const abort = (): void => fail(new Error("aborted"));
      const timer = setTimeout(() => fail(new Error("no answer in time")), timeoutMs);
      const settle = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
      request.on("error", fail);
      request.on("response", (response) => {
        resolve({ response, request, sentMs, settle });
      });
      if (signal?.aborted) {
        abort();
        return;
      }
      signal?.addEventListener("abort", abort, { once: true });
      request.end(data);
    });
  }

  /**
   * Sends a request and waits for its answer, on a new connection if `fresh`. The connection is closed if nobody waits
   * for the answer any more, so that the node knows.
   */
  async post(path: string, body: Body, timeoutMs: number, fresh: boolean, signal?: AbortSignal): Promise<Answer> {
    if (fresh) {
      return this.#exchange(path, body, timeoutMs, fresh, signal);
    }
    if (this.#requests === MOST_REQUESTS) {
      // The request that ends gives its place to this one.
      await new Promise<void>((resolve) => this.#queue.push(resolve));
    } else {
      this.#requests += 1;
    }
    try {
      signal?.throwIfAborted();
      return await this.#exchange(path, body, timeoutMs, fresh, signal);
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) {
        this.#requests -= 1;
      } else {
        next();
      }
    }
  }

  /** Sends a GET request on a new connection, and waits for its answer. */
  get(path: string, timeoutMs: number): Promise<Answer> {
    return this.#exchange(path, undefined, timeoutMs, true, undefined);
  }

  async #exchange(
    path: string,
    body: Body | undefined,
    timeoutMs: number,
    fresh: boolean,
    signal: AbortSignal | undefined,
  ): Promise<Answer> {
    const { response, sentMs, settle } = await this.#send(path, body, timeoutMs, fresh, signal);
    try {
      return { status: response.statusCode ?? 0, body: await readObject(response), sentMs };
    } catch (error) {
      signal?.throwIfAborted();
      throw new NoAnswer(`${this.address}: ${messageOf(error)}`);
    } finally {
      settle();
    }
  }

  /** Sends a request whose answer is a stream. The signal closes it until `settle` of the caller. */
  async stream(path: string, body: Body, timeoutMs: number, signal?: AbortSignal): Promise<Stream> {
    const { response, request, settle } = await this.#send(path, body, timeoutMs, true, signal);
    settle();
    return { status: response.statusCode ?? 0, objects: readLines(response), close: () => request.destroy() };
  }

  /** Closes the idle connections. */
  close(): void {
    this.#agent.destroy();
  }
}

interface Response {
  readonly response: http.IncomingMessage;
  readonly request: http.ClientRequest;
  readonly sentMs: number;
  /** Ends the timeout and the effect of the signal. */
  settle(): void;
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

function parseUrl(address: string): URL {
  let url: URL | undefined;
  try {
    url = new URL(address);
  } catch {
    // The message below says it better.
  }
  const fits = url !== undefined && ["http:", "https:"].includes(url.protocol) && url.hostname !== "";
  if (!fits || url === undefined || url.pathname !== "/" || url.search !== "") {
    throw new Invalid(`endpoint ${address}: an endpoint is like https://10.0.0.1:7480`);
  }
  return url;
}

/** Reads the bearer token. The file is read for each request: tokens are rotated while programs run. */
function readToken(path: string): string {
  let token: string;
  try {
    token = readFileSync(path, "latin1").trim();
  } catch (error) {
    throw new Unauthorized(`cannot read the token: ${messageOf(error)}`);
  }
  if (!/^[!-~]+$/.test(token)) {
    throw new Unauthorized(`${path} contains no token`);
  }
  return token;
}

function readCertificates(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    throw new Invalid(`cannot read the certificates: ${messageOf(error)}`);
  }
}

async function readObject(response: http.IncomingMessage): Promise<Body> {
  let data = "";
  response.setEncoding("utf8");
  for await (const part of response as AsyncIterable<string>) {
    data += part;
    if (data.length > MOST_BYTES) {
      throw new Error("the body of the response is too long");
    }
  }
  return data === "" ? {} : parseObject(data);
}

async function* readLines(response: http.IncomingMessage): AsyncGenerator<Body, void, undefined> {
  let rest = "";
  response.setEncoding("utf8");
  for await (const part of response as AsyncIterable<string>) {
    const lines = (rest + part).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MOST_BYTES) {
      throw new Error("a line of the response is too long");
    }
    for (const line of lines) {
      yield parseObject(line);
    }
  }
  if (rest !== "") {
    // The body of an error is one object without a new line.
    yield parseObject(rest);
  }
}
