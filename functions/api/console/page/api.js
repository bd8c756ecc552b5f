import { parseJson, toJson } from "./numbers.js";
import { S } from "./strings.js";

/** A failed request: its problem document (RFC 9457), or the fact that no answer came. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || body?.message || `${S.problem.status} ${status}`);
    this.status = status;
    this.body = body;
  }
}

const RETRY_MS = [300, 1000, 2000, 5000, 10000];
const GLANCES_MS = [100, 1000, 1500, 2000, 3000, 4000];
const POLL_S = 20;
const STREAM = "text/event-stream";

let bearer = async () => null;
let signedOut = () => {};
let streams = "";

/** `token()` returns a token; `lost()` is called once a token is refused; `url`: the host of streams, if it is another. */
export function authorize(token, lost, url) {
  bearer = token;
  signedOut = lost;
  streams = url || "";
}

function whereIs(path, base) {
  return new URL(path.replace(/^\//, ""), base || document.baseURI.replace(/[#?].*$/, ""));
}

async function send(method, path, { body, headers = {}, signal, base } = {}) {
  const token = await bearer();
  const named = { ...headers };
  if (token) named.Authorization = `Bearer ${token}`;
  if (body !== undefined) named["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(whereIs(path, base), {
      method, headers: named, signal, body: body === undefined ? undefined : toJson(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: S.problem.unreachable });
  }
  if (answer.ok) return answer;
  const problem = await jsonOf(answer).catch(() => null);
  if (answer.status === 401) signedOut();
  throw new Problem(answer.status, problem);
}

const jsonOf = async (answer) => parseJson(await answer.text());

const pause = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(done, ms);
  function done() {
    clearTimeout(timer);
    removeEventListener("online", done);
    removeEventListener("layover-decided", done);
    signal?.removeEventListener("abort", done);
    resolve();
  }
  addEventListener("online", done);
  addEventListener("layover-decided", done);
  signal?.addEventListener("abort", done);
});

/** The JSON of an answer. Repeats the request while the database wakes up. */
async function json(method, path, body, options = {}) {
  for (let tries = 0; ; tries += 1) {
    try {
      const answer = await send(method, path, { body, ...options });
      return answer.status === 204 ? null : await jsonOf(answer);
    } catch (problem) {
      const wakes = problem.status === 503 && (problem.body?.type || "").endsWith(":database-waking");
      if (!wakes || tries >= 24) throw problem;
      await pause(5000, options.signal);
    }
  }
}

export const id = encodeURIComponent;
export const get = (path, options) => json("GET", path, undefined, options);
export const post = (path, body = {}, options) => json("POST", path, body, options);
export const patch = (path, body) => json("PATCH", path, body);
export const put = (path, body) => json("PUT", path, body);
export const remove = (path) => json("DELETE", path);

/** All items of a list, from all of its pages; at most `most`. */
export async function all(path, most = 1000) {
  const found = [];
  let cursor = null;
  do {
    const joint = path.includes("?") ? "&" : "?";
    const more = cursor ? `&cursor=${id(cursor)}` : "";
    const page = await get(`${path}${joint}limit=100${more}`);
    found.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor && found.length < most);
  return found;
}

/** Announces a file, uploads its bytes, and returns the part that names it. */
export async function upload(file) {
  const type = file.type || "application/octet-stream";
  const made = await post("/files", { name: file.name, mime_type: type, size: file.size });
  let answer;
  try {
    answer = await fetch(made.upload_url, { method: "PUT", headers: { "Content-Type": type }, body: file });
  } catch {
    throw new Problem(0, { detail: S.problem.upload });
  }
  if (!answer.ok) throw new Problem(answer.status, { detail: S.problem.upload });
  return { type: "file", file_id: made.id, name: file.name, mime_type: type };
}

/** The address of the caller's own file. The answer is a redirect that a script may not read, so a new page follows it. */
export async function blobOf(fileId) {
  const answer = await send("GET", `/files/${id(fileId)}`);
  return answer.blob();
}

/** Wakes up those who wait for a decision that was made in this page. */
export const decided = () => dispatchEvent(new Event("layover-decided"));

/** Events of a run after `after`, in lists, each once and none missing, until none can follow. A server that
 *  streams is read as a stream, any other one is polled; a lost connection goes on where it broke. While the run
 *  waits for a person nothing is held open: it is looked at now and then. `connected(false)` while there is no
 *  connection. */
export async function* follow(runId, after, signal, connected = () => {}) {
  const path = `/runs/${id(runId)}/events`;
  let last = after, tries = 0, looks = 0, mode = "stream";
  while (!signal.aborted) {
    try {
      if (mode === "look") await pause(GLANCES_MS[Math.min(looks, GLANCES_MS.length - 1)], signal);
      const streamed = mode === "stream" && streams !== null;
      const headers = { Accept: streamed ? STREAM : "application/json" };
      const wait = mode === "poll" || (mode === "stream" && !streamed) ? POLL_S : 0;
      const answer = await send("GET", `${path}?after=${last}&wait=${wait}`, { headers, signal, base: streamed ? streams : "" });
      connected(true);
      if ((answer.headers.get("Content-Type") || "").startsWith(STREAM)) {
        mode = "look";
        looks = 0;
        for await (const event of serverEvents(answer.body)) {
          if (!event.seq || event.seq <= last) continue;
          if (event.seq > last + 1) break;
          last = event.seq;
          tries = 0;
          yield [event];
          if (event.type === "tool-call-suspended") break;
        }
        continue;
      }
      const page = await jsonOf(answer);
      const items = page.items.filter((event) => event.seq > last);
      last = Math.max(last, page.last_seq);
      tries = 0;
      if (items.length) yield items;
      if (page.done) return;
      if (items.length) mode = items.at(-1).type === "tool-call-suspended" ? "look" : "stream";
      looks = items.length ? 0 : looks + 1;
    } catch (problem) {
      if (signal.aborted || problem.name === "AbortError") return;
      const elsewhere = problem instanceof Problem && streams && mode === "stream";
      if (problem.status === 406 || (elsewhere && problem.status === 0 && navigator.onLine)) {
        streams = null;
        continue;
      }
      const passing = problem instanceof Problem ? problem.status === 0 || problem.status === 429 || problem.status >= 500 : true;
      if (!passing) throw problem;
      mode = "stream";
      connected(false);
      await pause(RETRY_MS[Math.min(tries, RETRY_MS.length - 1)], signal);
      tries += 1;
    }
  }
}

async function* serverEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text = (text + value).replace(/\r\n?/g, "\n");
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).replace(/^ /, "")).join("\n");
        text = text.slice(end + 2);
        if (data) yield parseJson(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
