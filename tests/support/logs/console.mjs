// Shows logs with the console's reducer, and prints what it shows of each, as JSON.
// node console.mjs PATH-OF-EVENTS.MJS < LOGS
import { readFileSync } from "node:fs";

const { PASSED_OVER, applyEvent, newView, onlyWaits } = await import(process.argv[2]);

/** What an event has changed, but for its own number. */
const snapshot = ({ last, marks, seen, ...view }) =>
  JSON.stringify(view, (_, value) => (value instanceof Map ? [...value] : value));

function* within(blocks) {
  for (const block of blocks) {
    yield block;
    if (block.kind === "call") yield* within(block.blocks);
  }
}

function pictureOf(events) {
  const view = newView();
  const told = new Set();
  const waits = [];
  const decided = [];
  for (const event of events) {
    const before = snapshot(view);
    applyEvent(view, event);
    if (snapshot(view) !== before) told.add(event.type);
    waits.push(onlyWaits(view));
    const open = [...view.calls.values()].filter((call) => call.decision && !call.hasResult);
    decided.push(Object.fromEntries(open.map((call) => [call.id, call.decision.decision])));
  }
  const all = [...within(view.blocks)];
  const texts = (kind) => view.blocks.filter((block) => block.kind === kind).map((block) => block.text);
  const calls = [...view.calls.values()].map(({ id, name, args, status, result }) => [id, { name, args, status, result: result ?? null }]);
  return {
    texts: texts("text"), thoughts: texts("reasoning"), calls: Object.fromEntries(calls), waiting: [...view.waiting.keys()],
    attempts: Object.fromEntries([...view.calls.values()].filter((call) => call.pending).map((call) => [call.id, call.pending.attempt])),
    status: view.finish ? view.status : null, error: view.error?.message ?? null, output: view.output ?? null,
    votes: Object.fromEntries([...view.waiting].map(([id, pending]) => [id, pending.approval?.given ?? []])),
    unknown: all.filter((block) => block.kind === "data" && block.data?.seq).map((block) => block.data),
    told: [...told], waits, decided,
  };
}

const logs = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ passedOver: Object.keys(PASSED_OVER), pictures: logs.map(pictureOf) }));
