import { useState } from "preact/hooks";
import { useAnswer } from "../../api";
import { ago } from "../../format";
import type { RunId, Runs } from "../../types";
import { Button, Dialog, Empty, Loading, Problem, Search, StatusPill } from "../../ui";

interface RunPickerProps {
  current: RunId;
  chosen: RunId[];
  onChange: (ids: RunId[]) => void;
  onClose: () => void;
}

const FIRST = 100; // rows shown without a search

export function RunPicker({ current, chosen, onChange, onClose }: RunPickerProps) {
  const { data, error, reload } = useAnswer<Runs>("/api/runs");
  const [search, setSearch] = useState("");
  const text = search.toLowerCase();
  const runs = (data?.runs ?? []).filter((each) => each.id !== current && !each.problem);
  const matches = runs.filter((each) => `${each.name} ${each.id}`.toLowerCase().includes(text));
  const toggle = (id: RunId) => onChange(chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id]);
  return (
    <Dialog
      title="Curves of other runs"
      onClose={onClose}
      actions={
        <>
          <Button disabled={chosen.length === 0} onClick={() => onChange([])}>
            None
          </Button>
          <Button kind="main" onClick={onClose}>
            Done
          </Button>
        </>
      }
    >
      <Search value={search} onChange={setSearch} label="Search runs" />
      {error && !data && <Problem error={error} retry={reload} />}
      {!data && !error && <Loading />}
      {data && matches.length === 0 && <Empty title={runs.length ? "No other run fits." : "There is no other run."} />}
      <ul class="picker">
        {matches.slice(0, FIRST).map((each) => (
          <li key={each.id}>
            <label>
              <input type="checkbox" checked={chosen.includes(each.id)} onChange={() => toggle(each.id)} />
              <span class="clip">{each.name}</span>
              <span class="faint num">{ago(each.started)}</span>
              <StatusPill status={each.status} />
            </label>
          </li>
        ))}
      </ul>
      {matches.length > FIRST && <p class="muted">{matches.length - FIRST} more: search for them.</p>}
    </Dialog>
  );
}
