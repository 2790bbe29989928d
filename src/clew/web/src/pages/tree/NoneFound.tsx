import { useOverview } from "../../api";
import { setParams } from "../../router";
import type { Refusal } from "../../types";
import { Button, Empty, withCode } from "../../ui";
import { NO_FILTERS, type Filters } from "./filters";

const OFFERED = 12;

/** A name that is not there is no mishap: somebody is still typing it. */
export function NoneFound({ filters, told }: { filters: Filters; told?: Refusal }) {
  const names = useOverview()?.names.map((each) => each.name) ?? [];
  const meant =
    told && filters.name ? names.filter((name) => name.toLowerCase().includes(filters.name.toLowerCase())) : [];
  return (
    <Empty title={told ? plain(told.error) : "No call fits."}>
      {meant.length === 0 && told?.remedy && <p class="tree-remedy">{withCode(told.remedy)}</p>}
      {meant.length > 0 && (
        <p class="tree-meant">
          {meant.slice(0, OFFERED).map((name) => (
            <Button key={name} small class="mono" onClick={() => setParams({ name })}>
              {name}
            </Button>
          ))}
        </p>
      )}
      <Button small onClick={() => setParams(NO_FILTERS)}>
        Show all calls
      </Button>
    </Empty>
  );
}

/** A title has no place for code, and a sentence that goes on in the remedy ends here. */
function plain(text: string): string {
  return text.replaceAll("`", "").replace(/;$/, ".");
}
