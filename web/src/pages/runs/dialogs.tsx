import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { asRefusal, post, runPath } from "../../api";
import { bytes } from "../../format";
import type { Refusal, RunRow } from "../../types";
import { Button, Dialog, Notice } from "../../ui";
import { tagsOf, tagsText } from "./order";

interface RunDialogProps {
  run: RunRow;
  onClose: () => void;
  onDone: () => void;
}

export function RenameDialog(props: RunDialogProps) {
  const [name, setName] = useState(props.run.name);
  const fits = name.trim() !== "" && name.trim() !== props.run.name;
  return (
    <Asking {...props} title="Rename the run" verb="Rename" disabled={!fits} what="edit" body={{ name: name.trim() }}>
      <Field label="Name">
        {(id) => (
          <input
            id={id}
            class="field"
            value={name}
            maxLength={200}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        )}
      </Field>
    </Asking>
  );
}

export function TagsDialog(props: RunDialogProps) {
  const [text, setText] = useState(tagsText(props.run.tags));
  return (
    <Asking {...props} title="Tags of the run" verb="Save" what="edit" body={{ tags: tagsOf(text) }}>
      <Field label="One a line: key: value">
        {(id) => (
          <textarea
            id={id}
            class="field mono runs-tags"
            rows={5}
            value={text}
            spellcheck={false}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        )}
      </Field>
    </Asking>
  );
}

export function DeleteDialog(props: RunDialogProps) {
  const { run } = props;
  return (
    <Asking {...props} title="Delete the run?" verb="Delete" danger what="delete" body={{ name: run.name }}>
      <p class="runs-delete">
        <b>{run.name}</b>, {bytes(run.size)}, with all that was recorded. This cannot be undone.
      </p>
      <p class="mono muted runs-delete">{run.path}</p>
    </Asking>
  );
}

function Field({ label, children }: { label: string; children: (id: string) => ComponentChildren }) {
  const id = useId();
  return (
    <div class="runs-field">
      <label for={id} class="muted">
        {label}
      </label>
      {children(id)}
    </div>
  );
}

interface AskingProps extends RunDialogProps {
  title: string;
  verb: string;
  what: "edit" | "delete";
  body: unknown;
  danger?: boolean;
  disabled?: boolean;
  children: ComponentChildren;
}

/** A dialog that submits a form, shows errors, and closes on success. */
function Asking({ run, title, verb, what, body, danger, disabled, onClose, onDone, children }: AskingProps) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Refusal | null>(null);
  const send = async () => {
    if (busy || disabled) return;
    setBusy(true);
    try {
      await post(runPath(run.id, what), body);
      onDone();
      onClose();
    } catch (error) {
      setProblem(asRefusal(error));
      setBusy(false);
    }
  };
  const enter = (event: KeyboardEvent) => {
    if (event.key === "Enter" && (event.target as HTMLElement).tagName === "INPUT") void send();
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind={danger ? "danger" : "main"} disabled={busy || disabled} onClick={() => void send()}>
            {verb}
          </Button>
        </>
      }
    >
      <div class="runs-asking" onKeyDown={enter}>
        {children}
      </div>
      {problem && (
        <Notice kind="bad">
          {problem.error} {problem.remedy}
        </Notice>
      )}
    </Dialog>
  );
}
