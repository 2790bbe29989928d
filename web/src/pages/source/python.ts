// Highlights Python with a small tokenizer: keywords, strings, comments, numbers and defined names. It never fails:
// unknown text stays plain.

export type Kind = "plain" | "keyword" | "constant" | "string" | "comment" | "number" | "defined" | "decorator";

export interface Token {
  kind: Kind;
  text: string;
}

const KEYWORDS = new Set(
  (
    "and as assert async await break class continue def del elif else except finally for from global if import in is " +
    "lambda nonlocal not or pass raise return try while with yield"
  ).split(" "),
);
const CONSTANTS = new Set(["None", "True", "False", "self", "cls"]);
const SOFT = /^(match|case|type)$/;

const STRING = /^([rR]?[bBfFtT]?|[bBfFtT][rR]|[uU])("""|'''|"|')/;
const NUMBER = /^(0[xX][\da-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][+-]?\d[\d_]*)?[jJ]?)/;
const NAME = /^[\p{L}_][\p{L}\p{N}_]*/u;
const SPACE = /^\s+/;

/** The tokens of each line; triple-quoted strings span lines. */
export function tokenize(lines: string[]): Token[][] {
  let open: string | null = null;
  return lines.map((line) => {
    const reader = new LineReader(line, open);
    reader.read();
    open = reader.open;
    return reader.tokens;
  });
}

class LineReader {
  readonly tokens: Token[] = [];
  private at = 0;
  private before = ""; // the last word: "def" makes the next one a defined name

  constructor(
    private readonly line: string,
    public open: string | null,
  ) {}

  read(): void {
    if (this.open) this.string(this.at, this.open);
    while (this.at < this.line.length) this.next(this.line.slice(this.at));
  }

  private next(rest: string): void {
    if (rest[0] === "#") return this.push("comment", rest);
    const space = SPACE.exec(rest);
    if (space) return this.push("plain", space[0]);
    const string = STRING.exec(rest);
    if (string) return this.string(this.at + string[0].length, string[2] ?? '"');
    const name = NAME.exec(rest);
    if (name) return this.word(name[0], rest.slice(name[0].length));
    const number = /^[\d.]/.test(rest) ? NUMBER.exec(rest) : null;
    if (number && number[0] !== ".") return this.push("number", number[0]);
    if (rest[0] === "@" && this.line.slice(0, this.at).trim() === "") {
      return this.push("decorator", /^@[\w.]*/.exec(rest)?.[0] ?? "@");
    }
    this.before = "";
    this.push("plain", rest[0] ?? "");
  }

  private word(word: string, rest: string): void {
    const attribute = this.line[this.at - 1] === ".";
    let kind: Kind = "plain";
    if (attribute) kind = "plain";
    else if (this.before === "def" || this.before === "class") kind = "defined";
    else if (KEYWORDS.has(word) || this.isSoft(word, rest)) kind = "keyword";
    else if (CONSTANTS.has(word)) kind = "constant";
    this.before = word;
    this.push(kind, word);
  }

  /** `match`, `case` and `type` are keywords only at the start of such a statement. */
  private isSoft(word: string, rest: string): boolean {
    if (!SOFT.test(word) || this.line.slice(0, this.at).trim() !== "") return false;
    return word === "type" ? /^\s+[\w]+(\[.*\])?\s*=/.test(rest) : /^\s+[^=\s.,)].*:\s*(#.*)?$/.test(rest);
  }

  private string(from: number, quote: string): void {
    const end = endOfString(this.line, from, quote);
    const goesOn = end < 0 && (quote.length === 3 || /(^|[^\\])(\\\\)*\\$/.test(this.line));
    this.open = goesOn ? quote : null;
    this.push("string", this.line.slice(this.at, end < 0 ? undefined : end));
  }

  private push(kind: Kind, text: string): void {
    this.at += text.length;
    if (text === "") return;
    const last = this.tokens[this.tokens.length - 1];
    if (last && last.kind === kind && kind === "plain") last.text += text;
    else this.tokens.push({ kind, text });
  }
}

/** The index after the closing quote, or -1. A backslash escapes the next character, in raw strings, too. */
function endOfString(line: string, from: number, quote: string): number {
  for (let at = from; at < line.length; at += 1) {
    if (line[at] === "\\") at += 1;
    else if (line.startsWith(quote, at)) return at + quote.length;
  }
  return -1;
}
