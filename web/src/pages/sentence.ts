/** "the file is gone" as a sentence: with a capital and a full stop. */
export function sentence(text: string): string {
  return text && `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
