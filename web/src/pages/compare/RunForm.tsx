// The choice of runs and tolerances, all kept in the address.

import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../../api";
import { when } from "../../format";
import { setParams } from "../../router";
import type { RunRow, Runs } from "../../types";
import { Button, Icon, Problem } from "../../ui";

const FIELDS = [
  { key: "rtol", label: "rtol", hint: "relative, as 1e-5", number: true },
  { key: "atol", label: "atol", hint: "absolute, as 1e-8", number: true },
  { key: "ulp", label: "ulp", hint: "floating-point numbers apart", number: true },
  { key: "only", label: "only", hint: "names or functions: loss, train.*", number: false },
  { key: "ignore", label: "ignore", hint: "names or functions: time*", number: false },
  { key: "map", label: "map", hint: "renamed in B: old=new", number: false },
] as const;

export function RunForm({ params }: { params: URLSearchParams }) {
  const { data, error, reload } = useAnswer<Runs>("/api/runs");
  if (error && !data) return <Problem error={error} retry={reload} />;
  const runs = (data?.runs ?? []).filter((run) => run.problem === null);
  const [a, b] = [params.get("a") ?? "", params.get("b") ?? ""];
  return (
    <form class="compare-form" onSubmit={(event) => event.preventDefault()}>
      <RunSelect sign="a" label="A" runs={runs} value={a} />
      <Button icon="compare" label="Swap A and B" onClick={() => setParams({ a: b, b: a, offset: null })} />
      <RunSelect sign="b" label="B" runs={runs} value={b} />
      <RunSelect sign="reference" label="Reference" runs={runs} value={params.get("reference") ?? ""} none="none" />
      <Tolerances params={params} />
    </form>
  );
}

function RunSelect({
  sign,
  label,
  runs,
  value,
  none,
}: {
  sign: string;
  label: string;
  runs: RunRow[];
  value: string;
  none?: string;
}) {
  const isListed = runs.some((run) => run.id === value);
  return (
    <label
      class="select compare-run"
      title={none ? "A second run of A: it shows how much each place varies by itself" : undefined}
    >
      <span class="select-label">{label}</span>
      <select
        value={value}
        aria-label={`Run ${label}`}
        onChange={(event) => setParams({ [sign]: (event.currentTarget as HTMLSelectElement).value, offset: null })}
      >
        {(none !== undefined || !value) && <option value="">{none ?? "choose a run"}</option>}
        {value && !isListed && <option value={value}>{value}</option>}
        {runs.map((run) => (
          <option key={run.id} value={run.id}>
            {run.name} · {when(run.started)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Tolerances({ params }: { params: URLSearchParams }) {
  const usedFields = [...FIELDS.map(({ key }) => key), "common"].filter((key) => params.get(key));
  return (
    <details class="compare-more" open={usedFields.length > 0}>
      <summary>
        <Icon name="right" size={12} /> Tolerances and filters
        {usedFields.length > 0 && <span class="chip">{usedFields.length}</span>}
      </summary>
      <div class="compare-fields">
        {FIELDS.map(({ key, ...field }) => (
          <TextField key={key} id={key} {...field} value={params.get(key) ?? ""} />
        ))}
        <label class="compare-common">
          <input
            type="checkbox"
            checked={params.get("common") === "1"}
            onChange={(event) =>
              setParams({ common: (event.currentTarget as HTMLInputElement).checked ? 1 : null, offset: null })
            }
          />
          <span>Judge only what both runs have</span>
        </label>
      </div>
    </details>
  );
}

/** A field that applies its value on blur or Enter, because a comparison may take a while. */
function TextField({
  id,
  label,
  hint,
  number,
  value,
}: {
  id: string;
  label: string;
  hint: string;
  number: boolean;
  value: string;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const wrong = number && text.trim() !== "" && !(Number(text) >= 0);
  const tell = (): void => {
    if (!wrong && text.trim() !== value) setParams({ [id]: text.trim(), offset: null });
  };
  return (
    <label>
      <span class="muted">{label}</span>
      <input
        class="field mono"
        value={text}
        placeholder={hint}
        spellcheck={false}
        aria-invalid={wrong}
        title={wrong ? "A number that is not negative" : hint}
        onInput={(event) => setText((event.currentTarget as HTMLInputElement).value)}
        onBlur={tell}
        onKeyDown={(event) => event.key === "Enter" && tell()}
      />
    </label>
  );
}
