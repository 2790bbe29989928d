import { describe, expect, it } from "vitest";
import { tokenize, type Kind } from "./python";

function kinds(line: string): [Kind, string][] {
  return (tokenize([line])[0] ?? []).map((token) => [token.kind, token.text]);
}

function only(line: string, kind: Kind): string[] {
  return kinds(line)
    .filter(([each]) => each === kind)
    .map(([, text]) => text);
}

describe("the colours of Python", () => {
  it("loses no character, whatever the text", () => {
    const lines = [
      "def f(x): # é",
      '  s = f\'{x!r}\' + "a\\"b"',
      "\t§ $ ?",
      "",
      "'''open",
      "still' open",
      "end''' + 1e-3j",
    ];
    expect(tokenize(lines).map((tokens) => tokens.map((token) => token.text).join(""))).toEqual(lines);
  });

  it("tells keywords from names that hold them", () => {
    expect(only("for format in information:", "keyword")).toEqual(["for", "in"]);
  });

  it("marks the name that is being defined", () => {
    expect(only("    async def forward(self, x):", "defined")).toEqual(["forward"]);
    expect(only("class Net(nn.Module):", "defined")).toEqual(["Net"]);
  });

  it("takes an attribute for a plain name, keyword or not", () => {
    expect(only("x.None.match.is_", "constant")).toEqual([]);
  });

  it("ends a comment with its line, and sees none inside text", () => {
    expect(only("x = '#no' # yes 'x", "comment")).toEqual(["# yes 'x"]);
    expect(tokenize(["# a", "b"])[1]).toEqual([{ kind: "plain", text: "b" }]);
  });

  it("carries triple quotes over lines and single ones not", () => {
    expect(tokenize(['"""a', "b", 'c""" + d']).map((tokens) => tokens[0]?.kind)).toEqual([
      "string",
      "string",
      "string",
    ]);
    expect(tokenize(["'never closed", "x = 1"])[1]?.[0]?.kind).toBe("plain");
  });

  it("carries a single-quoted text over a line that ends in a backslash", () => {
    expect(tokenize(["x = 'a\\", "b' + c"])[1]?.[0]).toEqual({ kind: "string", text: "b'" });
    expect(tokenize(["x = 'a\\\\", "b"])[1]?.[0]?.kind).toBe("plain");
  });

  it("knows prefixes and escaped quotes", () => {
    expect(only("rb'\\'x' f\"{a}\" u'z'", "string")).toEqual(["rb'\\'x'", 'f"{a}"', "u'z'"]);
  });

  it("reads numbers in every form and leaves digits of names alone", () => {
    expect(only("a1 = 0xFF + 1_000.5e-3j + .5 + 1. + 0b10", "number")).toEqual([
      "0xFF",
      "1_000.5e-3j",
      ".5",
      "1.",
      "0b10",
    ]);
  });

  it("takes match, case and type for keywords only where they are", () => {
    expect(only("match command.split():", "keyword")).toEqual(["match"]);
    expect(only("match = re.match(x)", "keyword")).toEqual([]);
    expect(only("type(x)", "keyword")).toEqual([]);
    expect(only("type Pair = tuple[int, int]", "keyword")).toEqual(["type"]);
  });

  it("colours a decorator and not the matrix product", () => {
    expect(only("  @clew.trace(depth=1)", "decorator")).toEqual(["@clew.trace"]);
    expect(only("a @ b", "decorator")).toEqual([]);
  });
});
