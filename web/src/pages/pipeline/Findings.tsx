import { useState } from "preact/hooks";
import { counted } from "../../format";
import type { Finding } from "../../types";
import { Button, Icon, withCode } from "../../ui";
import { sentence } from "../sentence";

const AT_ONCE = 3;

/** The findings of check(), with remedies. */
export function Findings({ findings }: { findings: Finding[] }) {
  const [all, setAll] = useState(false);
  if (findings.length === 0) return null;
  const shown = all ? findings : findings.slice(0, AT_ONCE);
  return (
    <section class="pipe-findings" aria-label="What check() found">
      <h2>
        <Icon name="warn" /> {counted(findings.length, "finding")} of <code>check()</code>
      </h2>
      <ul>
        {shown.map((finding, index) => (
          <li key={index}>
            {finding.stage !== null && <span class="chip">{finding.stage}</span>}
            <span>{withCode(sentence(finding.text))}</span>
            {finding.remedy && <span class="muted">{withCode(sentence(finding.remedy))}</span>}
          </li>
        ))}
      </ul>
      {findings.length > AT_ONCE && (
        <Button small kind="quiet" onClick={() => setAll(!all)}>
          {all ? "Fewer" : `All ${findings.length}`}
        </Button>
      )}
    </section>
  );
}
