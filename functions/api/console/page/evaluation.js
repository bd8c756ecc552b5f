import { parseJson } from "./numbers.js";
import { S } from "./strings.js";

/** The form of the file that this page reads: `layover_eval`, as `layover.desk.evals.report` writes it. */
const FORM = 1;

/** A file that cannot be compared. The message says why. */
export class NotComparable extends Error {}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const listOf = (value) => (Array.isArray(value) ? value : []);
const objectsOf = (value) => listOf(value).filter(isObject);
const wordOf = (value) => (typeof value === "string" ? value : "");
const wordsIn = (value) => listOf(value).filter((each) => typeof each === "string");
/** A number of the file, or null. A cost is a text there, and null if it is unknown. */
const measureOf = (value) => (["number", "bigint", "string"].includes(typeof value) && value !== "" && Number.isFinite(Number(value)) ? Number(value) : null);
const isShare = (value) => typeof value === "number" && value >= 0 && value <= 1;

function sharesOf(value, where) {
  if (!isShare(value.share) || !Array.isArray(value.interval) || value.interval.length !== 2 || !value.interval.every(isShare)) {
    throw new NotComparable(S.evals.damaged(where));
  }
  return { share: value.share, interval: value.interval };
}

function runOf(run) {
  return {
    holds: run.holds === true, status: wordOf(run.status), failures: wordsIn(run.failures), text: wordOf(run.text), output: run.output ?? null,
    calls: objectsOf(run.calls).map((call) => ({ name: wordOf(call.name), args: call.args ?? null, result: call.result ?? null, isError: call.is_error === true })),
    approvals: objectsOf(run.approvals).map((each) => ({ tool: wordOf(each.tool), args: each.args ?? null, decision: ["approve", "deny"].includes(each.decision) ? each.decision : "none" })),
    verdicts: objectsOf(run.verdicts).map((each) => ({ judge: wordOf(each.judge), rule: wordOf(each.rule), holds: typeof each.holds === "boolean" ? each.holds : null, reason: wordOf(each.reason) })),
    steps: measureOf(run.steps), tokens: measureOf(run.tokens), cost: measureOf(run.cost_usd), seconds: measureOf(run.seconds),
  };
}

function caseOf(value) {
  const name = wordOf(value.name), runs = objectsOf(value.runs).map(runOf);
  if (!name || !runs.length) throw new NotComparable(S.evals.damaged(name || "cases"));
  return { name, key: wordOf(value.key), input: wordOf(value.input), ...sharesOf(value, name), holding: runs.filter((run) => run.holds).length, runs };
}

/** The evaluation in a text that `layover eval --json` wrote. Throws NotComparable. */
export function evaluationOf(text) {
  let whole;
  try {
    whole = parseJson(text);
  } catch {
    const lines = /^\s*\{"layover_eval":/.test(text);
    throw new NotComparable(lines ? S.evals.isRuns : S.evals.noJson);
  }
  if (!isObject(whole) || !("layover_eval" in whole)) throw new NotComparable(S.evals.other);
  if (whole.layover_eval !== FORM) throw new NotComparable(S.evals.release);
  if (!Array.isArray(whole.cases)) throw new NotComparable("setup" in whole ? S.evals.damaged("cases") : S.evals.isRuns);
  const setup = isObject(whole.setup) ? whole.setup : {}, agent = wordOf(setup.agent);
  const definitions = isObject(setup.definitions) ? Object.entries(setup.definitions).map(([name, hash]) => [name, wordOf(hash).slice(0, 12)]) : [];
  const cases = new Map(objectsOf(whole.cases).map(caseOf).map((each) => [each.name, each]));
  return {
    // An agent that hands over has the definitions of the others, too.
    agent, definition: definitions.map(([name, hash]) => (definitions.length > 1 ? `${name} ${hash}` : hash)).sort().join(", "), stubsOnly: setup.stubs_only === true, model: wordOf(setup.model), judges: wordsIn(setup.judges),
    source: wordOf(whole.file), commit: wordOf(whole.commit), at: Number.isNaN(Date.parse(wordOf(whole.ended_at))) ? null : wordOf(whole.ended_at),
    ...sharesOf(whole, "share"), held: [...cases.values()].filter((each) => each.holding === each.runs.length).length,
    runs: [...cases.values()].reduce((sum, each) => sum + each.runs.length, 0),
    tokens: measureOf(whole.tokens), cost: measureOf(whole.cost_usd), seconds: measureOf(whole.seconds), cases,
  };
}

/** How a case's runs ended: all, none or some of them held. */
const endOfCase = ({ holding, runs }) => (holding === runs.length ? "held" : holding === 0 ? "failed" : "flaky");

function changeOf(before, after) {
  if (!before) return "new";
  if (!after) return "gone";
  const [was, is] = [endOfCase(before), endOfCase(after)];
  if (was === "flaky" || is === "flaky") return "flaky";
  if (was === is) return "same";
  return is === "held" ? "fixed" : "broken";
}

/** True if two intervals have nothing in common: their difference is hardly chance. */
export const isApart = (one, other) => one.interval[1] < other.interval[0] || other.interval[1] < one.interval[0];

/** The place in the list: what got worse first, what held throughout last. */
function rankOf({ before, after, gain }) {
  if (before && after) {
    if (gain < 0) return 0;
    if (gain > 0) return 3;
    return after.share < 1 ? 2 : 6;
  }
  if (after) return after.share < 1 ? 1 : 5;
  return 4;
}

/** Each case of two evaluations with what changed, what got worse first: `{name, kind, before, after, gain, altered}`.
 *  `altered`: the case itself is another one under the same name. */
export function comparisonOf(before, after) {
  const names = new Set([...after.cases.keys(), ...before.cases.keys()]);
  const found = [...names].map((name) => {
    const [was, is] = [before.cases.get(name), after.cases.get(name)];
    return { name, kind: changeOf(was, is), before: was, after: is, gain: was && is ? is.share - was.share : 0, altered: Boolean(was && is && was.key !== is.key) };
  });
  return found.sort((a, b) => rankOf(a) - rankOf(b) || a.gain - b.gain);
}
