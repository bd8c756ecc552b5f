import { html, shown, useLayoutEffect, useState } from "./dom.js";
import { isSame, parseJson, toJson, wholeOf } from "./numbers.js";
import { S } from "./strings.js";

/** A field's schema with its `$ref` resolved; for `X | null`, that of X. */
export function resolved(schema, root) {
  const name = /^#\/\$defs\/(.+)$/.exec(schema?.$ref || "")?.[1];
  if (name) return resolved({ ...(root.$defs?.[name] || {}), ...schema, $ref: undefined }, root);
  const choices = (schema?.anyOf || []).filter((each) => each.type !== "null");
  return choices.length === 1 ? { ...schema, anyOf: undefined, ...resolved(choices[0], root) } : schema || {};
}

const takesNull = (schema, root) => {
  const name = /^#\/\$defs\/(.+)$/.exec(schema?.$ref || "")?.[1];
  if (name) return takesNull(root.$defs?.[name], root);
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

const NUMBERS = new Set(["integer", "number"]);
const TYPES = { string: ["string"], date: ["string"], number: ["number", "bigint"], integer: ["number", "bigint"], boolean: ["boolean"] };

function typedAs(schema, choices) {
  if (choices) return "enum";
  const type = typeOf(schema);
  if (type === "string" && schema.format === "date") return "date";
  return NUMBERS.has(type) || type === "string" || type === "boolean" ? type : "json";
}

function kindOf(schema, choices, value) {
  const kind = typedAs(schema, choices);
  // A value may be of another kind than its schema: a deployment may have changed the tool.
  if (kind === "json" || value === undefined || value === null) return kind;
  if (kind === "enum") return choices.includes(value) ? kind : "json";
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
  if (value === null) return kind === "boolean" ? false : "";
  return kind === "boolean" ? value : String(value);
};

/** The fields of an object schema as they are typed: `{fields, values(), ...}`. Texts may not be JSON yet. `before`:
 *  values that are edited, if any are, with which `edited(name)` compares. */
export function useForm(schema, initial = {}, before = null) {
  const single = !(schema?.type === "object" && schema.properties);
  const properties = single ? { "": schema || {} } : schema.properties;
  const fields = Object.entries(properties).map(([name, each]) => {
    const of = resolved(each, schema), nullable = takesNull(each, schema), choices = choicesOf(of, nullable);
    const value = single || !Object.hasOwn(initial, name) ? undefined : initial[name];
    return { name, schema: of, nullable, choices, value, kind: kindOf(of, choices, value), required: single || (schema.required || []).includes(name) };
  });
  const [start] = useState(() => Object.fromEntries(fields.map(({ name, kind, value, schema: of }) =>
    [name, written(value === undefined && !single && !before ? of.default : value, kind)])));
  const [texts, setTexts] = useState(start);
  const [wrong, setWrong] = useState({});
  const change = (name, value) => setTexts((old) => ({ ...old, [name]: value }));
  /** Returns what a field has in a list, nothing if it is left out. Throws an Error for the person who typed. */
  const valueIn = (field) => {
    const text = texts[field.name];
    // The text of a value may say less than the value: null and nothing are both empty.
    if (before && text === start[field.name]) return field.value === undefined ? [] : [field.value];
    return text === "" ? emptyOf(field, before) : [valueOf(text, field)];
  };
  /** The typed values, or undefined if a field is wrong, which is then shown. */
  const values = () => {
    const found = {}, errors = {};
    for (const field of fields) {
      try {
        for (const value of valueIn(field)) found[field.name] = value;
      } catch (error) {
        errors[field.name] = error.message;
      }
    }
    setWrong(errors);
    if (Object.keys(errors).length) return undefined;
    return single ? { value: found[""] } : { value: found };
  };
  /** Returns whether the field differs from what was there before. */
  const edited = (name) => {
    if (!before) return false;
    const field = fields.find((each) => each.name === name);
    try {
      const now = valueIn(field);
      return !isSame(now.length || before[name] === undefined ? now[0] : field.schema.default, before[name]);
    } catch {
      return true;
    }
  };
  return { fields, texts, wrong, change, values, edited, before };
}

/** What an empty field has, as `valueIn` returns it. Whoever empties the text of a call wants it empty; in an answer
 *  it was never typed. */
function emptyOf({ kind, schema, nullable, required }, before) {
  if (nullable && (before || required)) return [null];
  if (kind === "string" && (before ? !schema.minLength : required && schema.minLength === 0)) return [""];
  if (required) throw new Error(S.problem.needed);
  return [];
}

function valueOf(text, { kind, choices }) {
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
const offered = (payload, name) => {
  const list = payload?.[`${name}s`] ?? payload?.[`${name}es`] ?? payload?.options;
  return Array.isArray(list) && list.length <= 24 && list.every((each) => typeof each !== "object") ? list : null;
};

/** The fields of a form. The first one that is wrong gets the keyboard. */
export function Fields({ form, prefix, payload, disabled }) {
  useLayoutEffect(() => {
    const name = Object.keys(form.wrong)[0];
    if (name !== undefined) document.getElementById(`${prefix}-${name}`)?.focus();
  }, [form.wrong]);
  return form.fields.map((field) => html`<${Field} key=${field.name} ...${field} id=${`${prefix}-${field.name}`} text=${form.texts[field.name]}
    wrong=${form.wrong[field.name]} was=${form.edited(field.name) ? { value: form.before[field.name] } : null} offers=${offered(payload, field.name)} disabled=${disabled}
    onValue=${(value) => form.change(field.name, value)} />`);
}

function Field({ id, name, kind, schema, choices, required, text, wrong, was, offers, disabled, onValue }) {
  const typed = (event) => onValue(event.currentTarget.value);
  const notes = [(wrong || schema.description) && `${id}-about`, was && `${id}-was`].filter(Boolean).join(" ");
  const about = { id, disabled, "aria-describedby": notes || undefined, "aria-invalid": wrong ? "true" : undefined,
    "aria-required": required && kind !== "boolean" ? "true" : undefined };
  const label = schema.title || name || S.decide.reason;
  const before = was && html`<p id=${`${id}-was`} class="small was">${S.decide.was} <del>${was.value === undefined ? S.decide.nothing : shown(was.value)}</del></p>`;
  const mark = was ? " edited" : "";
  const note = html`<span id=${`${id}-about`} class=${wrong ? "wrong" : "quiet small"}>${wrong || schema.description}</span>`;
  if (kind === "boolean") {
    return html`<div class=${`field check${mark}`}><input type="checkbox" ...${about} checked=${text} onChange=${(e) => onValue(e.currentTarget.checked)} />
      <label for=${id}>${label}</label>${note}${before}</div>`;
  }
  return html`<div class=${`field${mark}`}>
    <label for=${id}>${label}${!required && html` <span class="quiet small">${S.decide.optional}</span>`}</label>
    ${kind === "enum"
      ? html`<select ...${about} value=${text} onChange=${typed}><option value="">${S.decide.choose}</option>${choices.map((each) => html`<option key=${each} value=${String(each)}>${String(each)}</option>`)}</select>`
      : kind === "json" ? html`<textarea ...${about} rows="4" class="code" value=${text} onInput=${typed} spellcheck="false" />`
        : html`<input ...${about} type=${kind === "date" ? "date" : "text"} inputmode=${NUMBERS.has(kind) ? "decimal" : "text"} value=${text} onInput=${typed} autocomplete="off" />`}
    ${kind !== "enum" && offers && html`<div class="offers" role="group" aria-label=${`${S.decide.choose}: ${label}`}>
      ${offers.map((each) => html`<button type="button" key=${each} class="chip" disabled=${disabled} aria-pressed=${String(each) === String(text) ? "true" : "false"} onClick=${() => onValue(each)}>${String(each)}</button>`)}</div>`}
    ${(wrong || schema.description) && note}${before}
  </div>`;
}
