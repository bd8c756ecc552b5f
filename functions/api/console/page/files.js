import { blobOf } from "./api.js";
import { Icon, Trouble, html, useAction } from "./dom.js";

/** Saves content in a file of this name. */
export function saveAs(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

/** Saves a file. Its route redirects to another host, and `fetch` follows. */
const save = async (part) => saveAs(part.name || "file", await blobOf(part.file_id));

export function FileChip({ part }) {
  const action = useAction();
  const name = part.name || part.mime_type || part.file_id;
  return part.file_id
    ? html`<button type="button" class="chip file" aria-busy=${action.busy ? "true" : undefined} onClick=${() => action.run(() => save(part))}><${Icon} name="file" /> ${name}</button>
      <${Trouble} error=${action.error} />`
    : html`<a class="chip file" href=${/^https?:/.test(part.url || "") ? part.url : undefined} target="_blank" rel="noopener noreferrer"><${Icon} name="file" /> ${name}</a>`;
}

export const hasFiles = (event) => Boolean(event.dataTransfer?.types.includes("Files"));

/** Prevents a file that misses the drop area from replacing the page. */
export function guardDrops() {
  for (const name of ["dragover", "drop"]) {
    addEventListener(name, (event) => {
      if (!hasFiles(event) || event.defaultPrevented) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "none";
    });
  }
}
