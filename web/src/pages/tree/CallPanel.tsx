// Details of one call: its callers, inputs and result, and its source below.

import { useState } from "preact/hooks";
import { runPath, useAnswer } from "../../api";
import { duration, place } from "../../format";
import { link } from "../../router";
import type { CallDetail, CallId, CallNode, Named, RunId } from "../../types";
import { Button, classes, Icon, Loading, Notice, Problem, Value, ValueDetail } from "../../ui";
import { type Moment, SourcePanel } from "../source/SourcePanel";

interface CallPanelProps {
  run: RunId;
  call: CallId;
  at: Moment;
  onAt: (at: number) => void;
  onClose?: () => void;
}

export function CallPanel({ run, call, at, onAt, onClose }: CallPanelProps) {
  const { data, error, reload } = useAnswer<CallDetail>(runPath(run, "call"), { call }, { live: true });
  if (error && !data) return <Problem error={error} retry={reload} />;
  if (!data) return <Loading what="Opening the call" />;
  return (
    <>
      <CallHead run={run} detail={data} onClose={onClose} />
      <SourcePanel key={call} run={run} call={call} at={at} onAt={onAt} />
    </>
  );
}

function CallHead({ run, detail, onClose }: { run: RunId; detail: CallDetail; onClose?: () => void }) {
  const { call, parents } = detail;
  const values: Named[] = call.result ? [...call.args, { name: "returned", value: call.result }] : call.args;
  return (
    <header class="call-head">
      {parents.length > 0 && <Path run={run} parents={parents} />}
      <div class="call-title">
        <h2 class="mono clip" title={call.function}>
          {call.function}
        </h2>
        <span class="call-place muted clip" title={`${call.file}:${call.line}`}>
          {place(call)}
        </span>
        {onClose && <Button kind="quiet" small icon="close" label="Close the call" onClick={onClose} />}
      </div>
      <Facts call={call} />
      {call.error !== null && <Notice kind="bad">{call.error}</Notice>}
      {values.length > 0 && <Values values={values} returned={call.result !== null} />}
    </header>
  );
}

function Path({ run, parents }: { run: RunId; parents: CallDetail["parents"] }) {
  const shown = parents.slice(-4);
  return (
    <nav class="call-path" aria-label="Calls around it">
      {parents.length > shown.length && <span class="faint">… </span>}
      {shown.map((parent) => (
        <span key={parent.id}>
          <a href={link.call(run, parent.id)}>{parent.function}</a>
          <span class="faint"> › </span>
        </span>
      ))}
    </nav>
  );
}

function Facts({ call }: { call: CallNode }) {
  const facts: [string, string][] = [["took", call.duration === null ? "not ended" : duration(call.duration)]];
  facts.push(["began at", duration(call.start)]);
  if (call.step !== null) facts.push(["step", call.step]);
  if (call.stage !== null) facts.push(["stage", call.stage]);
  if (call.thread !== "") facts.push(["thread", call.thread]);
  if (call.rank !== 0) facts.push(["rank", String(call.rank)]);
  return (
    <dl class="call-facts">
      {facts.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Inputs and result; a click shows one value in full. */
function Values({ values, returned }: { values: Named[]; returned: boolean }) {
  const [open, setOpen] = useState<number | null>(null);
  return (
    <ul class="call-values">
      {values.map(({ name, value }, index) => (
        <li key={index}>
          <button
            type="button"
            class={classes("call-value", returned && index === values.length - 1 && "returned")}
            aria-expanded={open === index}
            onClick={() => setOpen(open === index ? null : index)}
          >
            <Icon name={open === index ? "down" : "right"} size={10} />
            <span class="call-value-name">{name}</span>
            <Value value={value} class="clip" />
          </button>
          {open === index && <ValueDetail value={value} />}
        </li>
      ))}
    </ul>
  );
}
