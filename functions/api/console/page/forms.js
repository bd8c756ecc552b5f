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

const kindOf = (schema) => {
  if (schema.enum) return "enum";
  if (["string", "integer", "number", "boolean"].includes(schema.type)) return schema.type;
  return "json";
};

/** A schema for the arguments of a call, from their values. Its texts may be empty. */
export function schemaOf(args) {
  const kinds = { string: "string", number: "number", bigint: "number", boolean: "boolean" };
  const properties = Object.fromEntries(Object.entries(args).map(([name, value]) => [name, { type: kinds[typeof value], minLength: 0 }]));
  return { type: "object", properties, required: Object.keys(args) };
}

const written = (value, kind) => {
  if (value === undefined) return kind === "boolean" ? false : "";
  if (kind === "json") return toJson(value, 2);
  if (value === null && kind !== "boolean") return "";
  return typeof value === "bigint" ? String(value) : value;
};

/** The fields of an object schema as they are typed: `{fields, values(), ...}`. Texts may not be JSON yet. `before`:
 *  values that `edited(name)` compares with, if they are to be compared with any. */
export function useForm(schema, initial = {}, before = null) {
  const single = !(schema?.type === "object" && schema.properties);
  const properties = single ? { "": schema || {} } : schema.properties;
  const fields = Object.entries(properties).map(([name, each]) => {
    const of = resolved(each, schema);
    return { name, schema: of, kind: kindOf(of), required: single || (schema.required || []).includes(name) };
  });
  const [texts, setTexts] = useState(() => Object.fromEntries(fields.map(({ name, kind, schema: of }) =>
    [name, written(single ? undefined : Object.hasOwn(initial, name) ? initial[name] : of.default, kind)])));
  const [wrong, setWrong] = useState({});
  const change = (name, value) => setTexts((old) => ({ ...old, [name]: value }));
  /** The typed values, or undefined if a field is wrong, which is then shown. */
  const values = () => {
    const found = {}, errors = {};
    for (const { name, kind, required, schema: of } of fields) {
      const text = texts[name];
      if (text === "" && !required) continue;
      if (text === "" && !(kind === "string" && of.minLength === 0)) {
        errors[name] = S.problem.needed;
        continue;
      }
      try {
        found[name] = valueOf(text, kind, of);
      } catch (error) {
        errors[name] = error.message;
      }
    }
    setWrong(errors);
    if (Object.keys(errors).length) return undefined;
    return single ? { value: found[""] } : { value: found };
  };
  /** Returns whether the field differs from what was there before. */
  const edited = (name) => {
    if (!before) return false;
    const { kind, schema: of } = fields.find((field) => field.name === name);
    try {
      return !isSame(valueOf(texts[name], kind, of), before[name]);
    } catch {
      return true;
    }
  };
  return { fields, texts, wrong, change, values, edited, before };
}

function valueOf(text, kind, schema) {
  if (kind === "integer" || kind === "number") {
    const typed = String(text).trim();
    if (typed === "" || !Number.isFinite(Number(typed))) throw new Error(S.problem.number);
    return /^[+-]?\d+$/.test(typed) ? wholeOf(typed.replace("+", "")) : Number(typed);
  }
  if (kind === "enum") return schema.enum.find((each) => String(each) === text) ?? text;
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
  return form.fields.map((field) => html`<${Field} key=${field.name} ...${field} id=${`${prefix}-${field.name}`} value=${form.texts[field.name]}
    wrong=${form.wrong[field.name]} was=${form.edited(field.name) ? { value: form.before[field.name] } : null} offers=${offered(payload, field.name)} disabled=${disabled}
    onValue=${(value) => form.change(field.name, value)} />`);
}

function Field({ id, name, kind, schema, required, value, wrong, was, offers, disabled, onValue }) {
  const typed = (event) => onValue(event.currentTarget.value);
  const notes = [(wrong || schema.description) && `${id}-about`, was && `${id}-was`].filter(Boolean).join(" ");
  const about = { id, disabled, "aria-describedby": notes || undefined, "aria-invalid": wrong ? "true" : undefined,
    "aria-required": required && kind !== "boolean" ? "true" : undefined };
  const label = schema.title || name || S.decide.reason;
  const before = was && html`<p id=${`${id}-was`} class="small was">${S.decide.was} <del>${was.value === undefined ? S.decide.nothing : shown(was.value)}</del></p>`;
  const mark = was ? " edited" : "";
  const note = html`<span id=${`${id}-about`} class=${wrong ? "wrong" : "quiet small"}>${wrong || schema.description}</span>`;
  if (kind === "boolean") {
    return html`<div class=${`field check${mark}`}><input type="checkbox" ...${about} checked=${value} onChange=${(e) => onValue(e.currentTarget.checked)} />
      <label for=${id}>${label}</label>${note}${before}</div>`;
  }
  const choices = kind === "enum" ? schema.enum : offers;
  return html`<div class=${`field${mark}`}>
    <label for=${id}>${label}${!required && html` <span class="quiet small">${S.decide.optional}</span>`}</label>
    ${kind === "enum"
      ? html`<select ...${about} value=${value} onChange=${typed}><option value="">${S.decide.choose}</option>${choices.map((each) => html`<option key=${each} value=${String(each)}>${String(each)}</option>`)}</select>`
      : kind === "json" ? html`<textarea ...${about} rows="4" class="code" value=${value} onInput=${typed} spellcheck="false" />`
        : html`<input ...${about} type="text" inputmode=${kind === "string" ? "text" : "decimal"} value=${value} onInput=${typed} autocomplete="off" />`}
    ${kind !== "enum" && offers && html`<div class="offers" role="group" aria-label=${`${S.decide.choose}: ${label}`}>
      ${offers.map((each) => html`<button type="button" key=${each} class="chip" disabled=${disabled} aria-pressed=${String(each) === String(value) ? "true" : "false"} onClick=${() => onValue(each)}>${String(each)}</button>`)}</div>`}
    ${(wrong || schema.description) && note}${before}
  </div>`;
}
