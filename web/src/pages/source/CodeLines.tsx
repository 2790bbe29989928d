import { useMemo } from "preact/hooks";
import { count } from "../../format";
import { joinNames, link } from "../../router";
import type { LineValue, RunId, Source } from "../../types";
import { classes, Value, ValueDetail } from "../../ui";
import { tokenize, type Token } from "./python";

interface CodeLinesProps {
  run: RunId;
  source: Source;
  values: Map<number, LineValue[]>;
  now: number | null; // the line of the slider's change
  open: string | null; // the value shown in full
  onOpen: (key: string | null) => void;
}

export function CodeLines({ run, source, values, now, open, onOpen }: CodeLinesProps) {
  const text = source.lines.join("\n");
  const tokens = useMemo(() => tokenize(source.lines), [text]);
  return (
    <ol class="code" style={{ "--digits": String(source.first + source.lines.length).length }}>
      {tokens.map((line, i) => (
        <CodeLine
          key={i}
          run={run}
          number={source.first + i}
          tokens={line}
          values={values.get(source.first + i) ?? NONE}
          now={now === source.first + i}
          open={open}
          onOpen={onOpen}
        />
      ))}
    </ol>
  );
}

const NONE: LineValue[] = [];
const BESIDE = 2; // values shown beside their line; further ones are shown below it

interface CodeLineProps {
  run: RunId;
  number: number;
  tokens: Token[];
  values: LineValue[];
  now: boolean;
  open: string | null;
  onOpen: (key: string | null) => void;
}

function CodeLine({ run, number, tokens, values, now, open, onOpen }: CodeLineProps) {
  const shown = values.find((value) => keyOf(value) === open);
  return (
    <li class={classes("code-line", now && "now", values.length > 0 && "has-values")}>
      <span class="code-number" aria-hidden="true">
        {number}
      </span>
      <span class="code-text">
        {tokens.map((token, i) =>
          token.kind === "plain" ? (
            token.text
          ) : (
            <span key={i} class={`py-${token.kind}`}>
              {token.text}
            </span>
          ),
        )}
      </span>
      {values.length > 0 && (
        <span class={classes("code-values", values.length > BESIDE && "below")}>
          {values.map((value) => (
            <button
              key={keyOf(value)}
              type="button"
              class={classes("code-value", value.now && "now")}
              aria-expanded={open === keyOf(value)}
              onClick={() => onOpen(open === keyOf(value) ? null : keyOf(value))}
            >
              <span class="code-name">{value.name}</span>
              <Value value={value.value} class="clip" />
              {value.of > 1 && (
                <span class="code-nth">
                  {count(value.nth)}/{count(value.of)}
                </span>
              )}
            </button>
          ))}
        </span>
      )}
      {shown && (
        <div class="code-detail">
          <ValueDetail value={shown.value} />
          <a href={allValues(run, shown)}>All values of {shown.name}</a>
        </div>
      )}
    </li>
  );
}

function allValues(run: RunId, { name, value }: LineValue): string {
  if (value.shape) return link.run(run, "tensor", { name });
  return link.run(run, "series", { names: joinNames([name]) });
}

function keyOf(value: LineValue): string {
  return `${value.line} ${value.name}`;
}
