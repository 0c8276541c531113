// What stands under an answer: what was read, and the receipt in words with the share that was reused.
// props: reading, receipt, share (0 to 1 or null), details, stopped. Every word comes from the server.
import { useState } from 'react';
import { BookOpen, CircleStop, Receipt } from 'lucide-react';

function Line({ icon: Icon, children, testid }) {
  return (
    <div className="flex items-start gap-2" data-testid={testid}>
      <Icon className="mt-0.5 h-3.5 w-3.5 flex-none" aria-hidden />
      <div className="min-w-0 flex-1">{children}</div>
    </div>
  );
}

export default function AnswerFoot() {
  const [open, setOpen] = useState(false);
  return (
    <div className="mt-1 flex flex-col gap-1 border-t pt-2 text-xs leading-relaxed text-muted-foreground">
      {props.stopped && <Line icon={CircleStop} testid="stopped">{props.stopped}</Line>}
      {props.reading && <Line icon={BookOpen} testid="reading">{props.reading}</Line>}
      {props.receipt && (
        <Line icon={Receipt} testid="receipt">
          <button type="button" className="text-left hover:text-foreground" aria-expanded={open} onClick={() => setOpen(!open)}>
            {props.receipt}
          </button>
          {props.share !== null && (
            <div className="mt-1 h-1 w-full max-w-xs overflow-hidden rounded-full bg-muted" aria-hidden>
              <div className="h-full rounded-full bg-primary" style={{ width: `${(props.share * 100).toFixed(1)}%` }} />
            </div>
          )}
          {open && (
            <dl className="m-0 mt-2 grid grid-cols-[auto_1fr] gap-x-4 gap-y-0.5" data-testid="details">
              {props.details.map(([name, value]) => (
                <div key={name} className="contents">
                  <dt>{name}</dt>
                  <dd className="m-0 text-foreground">{value}</dd>
                </div>
              ))}
            </dl>
          )}
        </Line>
      )}
    </div>
  );
}
