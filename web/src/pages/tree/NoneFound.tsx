import { useOverview } from "../../api";
import { setParams } from "../../router";
import type { Refusal } from "../../types";
import { Button, Empty, withCode } from "../../ui";
import { NO_FILTERS, type Filters } from "./filters";

const OFFERED = 12;

/** An unknown name is not an error: the user may still be typing it. */
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

/** Remove code marks for use as a title, and end a sentence that continues in the remedy. */
function plain(text: string): string {
  return text.replaceAll("`", "").replace(/;$/, ".");
}
