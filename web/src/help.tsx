import { Dialog } from "./ui";

const KEYS: [string, string][] = [
  ["/", "search"],
  ["j k ↓ ↑", "next, previous in a list or tree"],
  ["← →", "close, open a branch"],
  ["Enter", "open"],
  ["Esc", "close, or leave the search"],
  ["1 … 6", "pages of the run"],
  ["x  c", "in the list of runs: choose one, compare two"],
  ["?", "this help"],
];

const TREE: [string, string][] = [
  [", .", "one change back, on, in the source"],
  ["p", "play the changes"],
];

const PLOTS: [string, string][] = [
  ["drag", "zoom into a plot"],
  ["Shift + drag", "move along it"],
  ["wheel", "zoom; with Shift, move"],
  ["double-click", "see it whole again"],
  ["click", "the point: its value, source line and call"],
  ["+ - 0 ← →", "zoom and move by keys; in a graph too"],
  ["Shift + ← →", "move the cursor along a plot"],
  ["Enter", "the point under the cursor"],
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <KeyTable title="Everywhere" rows={KEYS} />
      <KeyTable title="Tree and source" rows={TREE} />
      <KeyTable title="Plots" rows={PLOTS} />
    </Dialog>
  );
}

function KeyTable({ title, rows }: { title: string; rows: [string, string][] }) {
  return (
    <section class="keys">
      <h3>{title}</h3>
      <dl>
        {rows.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
