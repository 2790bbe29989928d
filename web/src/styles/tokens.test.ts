import { describe, expect, it } from "vitest";
import tokens from "./tokens.css?raw";

/** The colours of each theme, by name. */
function themes(): Record<string, string>[] {
  return [...tokens.matchAll(/color-scheme: \w+;([^}]*)\}/g)].map(([, body]) =>
    Object.fromEntries([...body!.matchAll(/(--[\w-]+): (#[0-9a-f]{6})/g)].map(([, name, colour]) => [name, colour])),
  );
}

function light(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
}

function contrast(one: string, other: string): number {
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
  return (bright! + 0.05) / (dark! + 0.05);
}

const GROUNDS = ["--bg", "--surface", "--sunken", "--hover", "--accent-soft"];
const ON_ITS_OWN = ["--good", "--warn", "--bad", "--info"];

describe("colours that are read", () => {
  it("are told apart from what is behind them, in every theme", () => {
    const found = themes();
    expect(found).toHaveLength(3);
    for (const colours of found) {
      const pairs = ["--text", "--muted", "--faint"].flatMap((ink) => GROUNDS.map((ground) => [ink, ground]));
      pairs.push(...ON_ITS_OWN.map((ink) => [ink, `${ink}-soft`]));
      const dim = pairs.filter(([ink, ground]) => contrast(colours[ink!]!, colours[ground!]!) < 4.5);
      expect(dim).toEqual([]);
    }
  });

  it("are the same in a dark system and for who chose dark", () => {
    const [, system, chosen] = themes();
    expect(system).toEqual(chosen);
  });
});
