import { html, shown, useLayoutEffect, useState } from "./dom.js";
import { ownOf, recordOf } from "./names.js";
import { isSame, parseJson, toJson, wholeOf } from "./numbers.js";
import { reveal } from "./seen.js";
import { S } from "./strings.js";

/** A field's schema with its `$ref` resolved; for `X | null`, that of X. */
export function resolved(schema, root) {
  const name = /^#\/\$defs\/(.+)$/.exec(schema?.$ref || "")?.[1];
  if (name) return resolved({ ...(ownOf(root.$defs, name) || {}), ...schema, $ref: undefined }, root);
  const choices = (schema?.anyOf || []).filter((each) => each.type !== "null");
  return choices.length === 1 ? { ...schema, anyOf: undefined, ...resolved(choices[0], root) } : schema || {};
}

const takesNull = (schema, root) => {
  const name = /^#\/\$defs\/(.+)$/.exec(schema?.$ref || "")?.[1];
  if (name) return takesNull(ownOf(root.$defs, name), root);
  const types = [schema?.type].flat(), values = schema?.enum || [];
  return types.includes("null") || values.includes(null) || (schema?.anyOf || []).some((each) => takesNull(each, root));
};

/** A field's type next to null; undefined: it may have several. */
const typeOf = (schema) => {
  const types = [schema.type].flat().filter((each) => each !== "null");
  return types.length === 1 ? types[0] : undefined;
};

/** The values of which a field is one, if its schema lists them. */
const choicesOf = (schema, nullable) => {
  const listed = schema.enum || (Object.hasOwn(schema, "const") ? [schema.const] : null);
  if (listed) return listed.some((each) => each && typeof each === "object") ? null : listed.filter((each) => each !== null);
  return typeOf(schema) === "boolean" && nullable ? [true, false] : null;  // A box that is not checked is not null.
};

/** The words for values that a schema lists, in its order; a tool or a server may have others than the values. */
const namesIn = (schema) => {
  const values = schema?.enum || [], names = schema?.enumNames;
  return Array.isArray(names) && names.length === values.length ? names.map(String) : values.map(String);
};

/** The word for one of a schema's values. */
const choiceName = (schema, value) => namesIn(schema)[(schema.enum || []).indexOf(value)] ?? String(value);

/** The values that the items of a list may be, for a person who writes them. */
const itemsOf = (items) => (items?.enum ? S.limits.of(items.enum.map((each) => (choiceName(items, each) === String(each) ? String(each) : `${each} (${choiceName(items, each)})`)).join(", ")) : "");

/** The schema of a list's items, if each of them fits on a line. */
const lineOf = (schema, root) => {
  if (typeOf(schema) !== "array" || !schema.items || schema.prefixItems) return null;
  const items = resolved(schema.items, root);
  return LINES.has(typeOf(items)) && !takesNull(schema.items, root) ? items : null;
};

const LINES = new Set(["string", "integer", "number"]);
const NUMBERS = new Set(["integer", "number"]);
const TYPES = { string: ["string"], date: ["string"], number: ["number", "bigint"], integer: ["number", "bigint"], boolean: ["boolean"] };

function typedAs(schema, choices, items) {
  if (choices) return "enum";
  const type = typeOf(schema);
  if (type === "string" && schema.format === "date") return "date";
  if (NUMBERS.has(type) || type === "string" || type === "boolean") return type;
  return items ? "lines" : "json";
}

const fitsLine = (value, type) => (type === "string" ? typeof value === "string" && value.trim() === value && value !== "" && !value.includes("\n") : TYPES[type].includes(typeof value));

function kindOf(schema, choices, value, items) {
  const kind = typedAs(schema, choices, items);
  // A value may be of another kind than its schema: a deployment may have changed the tool.
  if (kind === "json" || value === undefined || value === null) return kind;
  if (kind === "enum") return choices.includes(value) ? kind : "json";
  if (kind === "lines") return Array.isArray(value) && value.every((each) => fitsLine(each, typeOf(items))) ? kind : "json";
  if (!TYPES[kind].includes(typeof value)) return "json";
  return kind === "date" && !/^\d{4}-\d\d-\d\d$/.test(value) ? "string" : kind;
}

/** A schema for the arguments of a call, from their values. */
function schemaOf(args) {
  const kinds = { string: "string", number: "number", bigint: "number", boolean: "boolean" };
  const properties = Object.fromEntries(Object.entries(args).map(([name, value]) => [name, { type: kinds[typeof value] }]));
  return { type: "object", properties, required: Object.keys(args) };
}

/** The schema of a tool's arguments, with those that it does not name; if it is not known, one that is made from them. */
export function schemaFor(args, schema) {
  if (schema?.type !== "object" || !schema.properties) return schemaOf(args);
  const more = schemaOf(Object.fromEntries(Object.entries(args).filter(([name]) => !Object.hasOwn(schema.properties, name))));
  return { ...schema, properties: { ...schema.properties, ...more.properties }, required: [...(schema.required || []), ...more.required] };
}

const written = (value, kind) => {
  if (value === undefined) return kind === "boolean" ? false : "";
  if (kind === "json") return toJson(value, 2);
  if (kind === "lines") return (value || []).map(String).join("\n");
  if (value === null) return kind === "boolean" ? false : "";
  return kind === "boolean" ? value : String(value);
};

/** The deepest object in objects whose fields a form has; a deeper one is JSON. */
const MAX_DEPTH = 3;

/** Returns whether an object's fields are fields of the form: it has to be there, and has no others. */
function isGroup(schema, nullable, required, value, depth) {
  if (nullable || !required || depth >= MAX_DEPTH || typeOf(schema) !== "object" || !schema.properties || !Object.keys(schema.properties).length) return false;
  if (value === undefined) return true;
  return value && typeof value === "object" && !Array.isArray(value) && Object.keys(value).every((name) => Object.hasOwn(schema.properties, name));
}

/** The fields of an object schema, those of objects in it included. `path`: the names down to a field. */
function fieldsOf(schema, root, values, path = [], titles = []) {
  return Object.entries(schema.properties).flatMap(([name, each]) => {
    const of = resolved(each, root), nullable = takesNull(each, root), choices = choicesOf(of, nullable), items = lineOf(of, root);
    const value = ownOf(values, name);
    const required = (schema.required || []).includes(name);
    if (isGroup(of, nullable, required, value, path.length + 1)) return fieldsOf(of, root, value, [...path, name], [...titles, of.title || name]);
    return [{ name: [...path, name].join("."), label: of.title || name, path: [...path, name], group: titles.join(" › "), schema: of, nullable, choices, items, value, kind: kindOf(of, choices, value, items), required }];
  });
}

const valueAt = (values, path) => path.reduce((found, name) => (typeof found === "object" ? ownOf(found, name) : undefined), values);

/** The values of fields as one object, with an object for each group. */
function assembled(fields, entries) {
  const found = recordOf();
  const within = (path) => path.slice(0, -1).reduce((at, name) => { at[name] ??= recordOf(); return at[name]; }, found);
  for (const { path } of fields) within(path);
  for (const [{ path }, value] of entries) within(path)[path.at(-1)] = value;
  return found;
}

function fieldOfWhole(schema) {
  const of = resolved(schema, schema), nullable = takesNull(schema, schema), choices = choicesOf(of, nullable), items = lineOf(of, schema);
  return { name: "", label: of.title || "", path: [], group: "", schema: of, nullable, choices, items, value: undefined, kind: kindOf(of, choices, undefined, items), required: true };
}

/** The fields of an object schema as they are typed: `{fields, values(), ...}`. Texts may not be JSON yet. `before`:
 *  values that are edited, if any are, with which `edited(name)` compares. */
export function useForm(schema, initial = {}, before = null) {
  const single = !(schema?.type === "object" && schema.properties);
  const fields = single ? [fieldOfWhole(schema || {})] : fieldsOf(schema, schema, initial);
  const [start] = useState(() => recordOf(fields.map(({ name, kind, value, schema: of }) =>
    [name, written(value === undefined && !single && !before ? of.default : value, kind)])));
  const [texts, setTexts] = useState(start);
  const [wrong, setWrong] = useState(recordOf);
  const change = (name, value) => setTexts((old) => recordOf([...Object.entries(old), [name, value]]));
  /** Returns what a field has in a list, nothing if it is left out. Throws an Error for the person who typed. */
  const valueIn = (field) => {
    const text = texts[field.name];
    // The text of a value may say less than the value: null and nothing are both empty.
    if (before && text === start[field.name]) return field.value === undefined ? [] : [field.value];
    return text === "" ? emptyOf(field, before) : [valueOf(text, field)];
  };
  /** The typed values, or undefined if a field is wrong, which is then shown. */
  const values = () => {
    const entries = [], errors = recordOf();
    for (const field of fields) {
      try {
        for (const value of valueIn(field)) {
          checkLimits(value, field.schema);
          entries.push([field, value]);
        }
      } catch (error) {
        errors[field.name] = error.message;
      }
    }
    setWrong(errors);
    if (Object.keys(errors).length) return undefined;
    return single ? { value: entries[0]?.[1] } : { value: assembled(fields, entries) };
  };
  /** The field that an error of the server is about: `["body", "data", "to", "street"]`. */
  const fieldAt = ({ loc = [] }) => fields.find(({ path }) => path.every((name, n) => loc[n + 2] === name) && loc.length >= path.length + 2);
  const takes = (errors) => Boolean(errors?.length) && errors.every((each) => ["data", "args"].includes(each.loc?.[1]) && fieldAt(each));
  const refuse = (errors) => setWrong(recordOf(errors.map((each) => [fieldAt(each).name, each.msg])));
  /** Returns whether the field differs from what was there before. */
  const edited = (name) => {
    if (!before) return false;
    const field = fields.find((each) => each.name === name);
    try {
      const now = valueIn(field);
      const was = valueAt(before, field.path);
      return !isSame(now.length || was === undefined ? now[0] : field.schema.default, was);
    } catch {
      return true;
    }
  };
  return { fields, texts, wrong, change, values, edited, before, takes, refuse };
}

/** What an empty field has, as `valueIn` returns it. Whoever empties the text of a call wants it empty; in an answer
 *  it was never typed. */
function emptyOf({ kind, schema, nullable, required }, before) {
  if (nullable && (before || required)) return [null];
  if (kind === "string" && (before ? !schema.minLength : required && schema.minLength === 0)) return [""];
  if (required) throw new Error(S.problem.needed);
  return [];
}

/** The limits of a schema, each with the words for it. A person reads them before the server would refuse. */
const LIMITS = {
  minimum: [(value, limit) => value >= limit, (limit) => S.limits.least(limit)],
  maximum: [(value, limit) => value <= limit, (limit) => S.limits.most(limit)],
  exclusiveMinimum: [(value, limit) => value > limit, (limit) => S.limits.above(limit)],
  exclusiveMaximum: [(value, limit) => value < limit, (limit) => S.limits.below(limit)],
  minLength: [(value, limit) => [...value].length >= limit, (limit) => S.limits.shortest(limit)],
  maxLength: [(value, limit) => [...value].length <= limit, (limit) => S.limits.longest(limit)],
  minItems: [(value, limit) => value.length >= limit, (limit) => S.limits.fewest(limit)],
  maxItems: [(value, limit) => value.length <= limit, (limit) => S.limits.mostItems(limit)],
};
const LIMITED = { string: ["minLength", "maxLength"], number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], array: ["minItems", "maxItems"] };
LIMITED.integer = LIMITED.number;

/** The limits that a schema sets: `[name, limit]`. The least length that says no more than that something is needed is none. */
const limitsIn = (schema) => (ownOf(LIMITED, typeOf(schema)) || []).filter((name) => typeof schema[name] === "number" && !(name === "minLength" && schema[name] <= 1)).map((name) => [name, schema[name]]);

function checkLimits(value, schema) {
  const fits = { string: "string", number: "number", bigint: "number" }[typeof value] || (Array.isArray(value) ? "array" : null);
  if (!fits || !LIMITED[fits].length) return;
  for (const [name, limit] of limitsIn(schema)) if (LIMITED[fits].includes(name) && !LIMITS[name][0](value, limit)) throw new Error(LIMITS[name][1](limit));
}

function valueOf(text, { kind, choices, items }) {
  if (kind === "lines") {
    return String(text).split("\n").map((line) => line.trim()).filter(Boolean).map((line) => valueOf(line, { kind: typeOf(items) }));
  }
  if (NUMBERS.has(kind)) {
    const typed = String(text).trim();
    if (typed === "" || !Number.isFinite(Number(typed))) throw new Error(S.problem.number);
    return /^[+-]?\d+$/.test(typed) ? wholeOf(typed.replace("+", "")) : Number(typed);
  }
  if (kind === "enum") return choices.find((each) => String(each) === text) ?? text;
  if (kind !== "json") return text;
  try {
    JSON.parse(text, (_, each) => { if (each === Infinity || each === -Infinity) throw new RangeError(); return each; });
    return parseJson(text);
  } catch {
    throw new Error(S.problem.json);
  }
}

/** Values that the payload of a call offers for a field: `slots: [...]` for `slot`. */
const offered = (payload, { name, kind }) => {
  if (kind === "lines") return null;
  const list = [`${name}s`, `${name}es`, "options"].map((each) => ownOf(payload, each)).find((each) => each ?? false);
  return Array.isArray(list) && list.length <= 24 && list.every((each) => typeof each !== "object") ? list : null;
};

/** The fields of a form. The first one that is wrong gets the keyboard. */
export function Fields({ form, prefix, payload, disabled }) {
  useLayoutEffect(() => {
    const name = Object.keys(form.wrong)[0];
    if (name !== undefined) document.getElementById(`${prefix}-${name}`)?.focus();
  }, [form.wrong]);
  const field = (each) => html`<${Field} key=${each.name} ...${each} id=${`${prefix}-${each.name}`} text=${form.texts[each.name]}
    wrong=${form.wrong[each.name]} was=${form.edited(each.name) ? { value: valueAt(form.before, each.path) } : null} offers=${offered(payload, each)} disabled=${disabled}
    onValue=${(value) => form.change(each.name, value)} />`;
  const groups = [...new Set(form.fields.map((each) => each.group))];
  return groups.map((group) => {
    const within = form.fields.filter((each) => each.group === group).map(field);
    return group ? html`<fieldset key=${`in ${group}`}><legend>${group}</legend>${within}</fieldset>` : within;
  });
}

function Field({ id, label: title, kind, schema, choices, items, required, text, wrong, was, offers, disabled, onValue }) {
  const typed = (event) => onValue(event.currentTarget.value);
  const hints = [schema.description, kind === "lines" && S.limits.lines, kind === "lines" && itemsOf(items), ...limitsIn(schema).map(([each, limit]) => LIMITS[each][1](limit))].filter(Boolean).join(" ");
  const notes = [(wrong || hints) && `${id}-about`, was && `${id}-was`].filter(Boolean).join(" ");
  const about = { id, disabled, "aria-describedby": notes || undefined, "aria-invalid": wrong ? "true" : undefined,
    "aria-required": required && kind !== "boolean" ? "true" : undefined };
  const label = title || S.decide.reason;
  const before = was && html`<p id=${`${id}-was`} class="small was">${S.decide.was} <del>${was.value === undefined ? S.decide.nothing : shown(was.value)}</del></p>`;
  const unseen = typeof text === "string" && reveal(text) !== text && html`<p class="small was">${S.decide.unseen} ${text}</p>`;
  const mark = was ? " edited" : "";
  const note = html`<span id=${`${id}-about`} class=${wrong ? "wrong" : "quiet small"}>${wrong || hints}</span>`;
  if (kind === "boolean") {
    return html`<div class=${`field check${mark}`}><input type="checkbox" ...${about} checked=${text} onChange=${(e) => onValue(e.currentTarget.checked)} />
      <label for=${id}>${label}</label>${note}${before}</div>`;
  }
  return html`<div class=${`field${mark}`}>
    <label for=${id}>${label}${!required && html` <span class="quiet small">${S.decide.optional}</span>`}</label>
    ${kind === "enum"
      ? html`<select ...${about} value=${text} onChange=${typed}><option value="">${S.decide.choose}</option>${choices.map((each) => html`<option key=${each} value=${String(each)}>${choiceName(schema, each)}</option>`)}</select>`
      : kind === "lines" ? html`<textarea ...${about} rows=${Math.min(8, Math.max(2, String(text).split("\n").length))} dir="auto" value=${text} onInput=${typed} />`
      : kind === "json" ? html`<textarea ...${about} rows="4" class="code" value=${text} onInput=${typed} spellcheck="false" />`
        : html`<input ...${about} type=${kind === "date" ? "date" : "text"} dir=${kind === "string" ? "auto" : undefined} inputmode=${NUMBERS.has(kind) ? "decimal" : "text"} value=${text} onInput=${typed} autocomplete="off" />`}
    ${kind !== "enum" && offers && html`<div class="offers" role="group" aria-label=${`${S.decide.choose}: ${label}`}>
      ${offers.map((each) => html`<button type="button" key=${each} class="chip" disabled=${disabled} aria-pressed=${String(each) === String(text) ? "true" : "false"} onClick=${() => onValue(each)}>${String(each)}</button>`)}</div>`}
    ${(wrong || hints) && note}${unseen}${before}
  </div>`;
}
