// What stands under an answer: what was read, and the receipt in words with the share that was reused. It also opens the
// answer's sources beside the chat: Chainlit by itself would open all of them at once, as soon as the answer is there.
// props: sources {link text: props of SourcePane}, reading, receipt, share (0 to 1 or null), details, stopped.
import { useEffect, useRef, useState } from 'react';
import { useSetRecoilState } from 'recoil';
import { elementState, sideViewState } from '@chainlit/react-client';
import { BookOpen, CircleStop, Zap } from 'lucide-react';

// On a phone the pane is a dialog: Chainlit leaves it without the name and the description that it points to.
const is = (attribute) => (node) => {
  const id = node?.closest('[role=dialog]')?.getAttribute(attribute);
  if (id) node.id = id;
};
const names = is('aria-labelledby');
const describes = is('aria-describedby');

function Heading({ source }) {
  return (
    <span ref={names}>
      {source.heading}
      <span ref={describes} className="sr-only"> · {source.where}</span>
    </span>
  );
}

function useSources(foot) {
  const setSideView = useSetRecoilState(sideViewState);
  const setElements = useSetRecoilState(elementState);
  useEffect(() => {
    const message = foot.current?.closest('.step');
    if (!message) return;
    const open = (event) => {
      const link = event.target.closest?.('a.element-link');
      const source = link && props.sources[link.textContent];
      if (!source) return;
      event.preventDefault();
      event.stopPropagation();
      const pane = {
        id: `source ${Date.now()}`, // A pane of its own each time: it begins at the page of its quote.
        type: 'custom',
        name: 'SourcePane',
        display: 'side',
        mime: 'application/json',
        props: source,
      };
      const show = () => setSideView({ title: <Heading source={source} />, elements: [pane] });
      show();
      // With every answer Chainlit closes a pane of which no element is in the chat; when one comes in, it opens that
      // under its file's name.
      setElements((all) => (all.some((element) => element.display === 'side') ? all : [...all, pane]));
      setTimeout(show);
    };
    message.addEventListener('click', open, true);
    return () => message.removeEventListener('click', open, true);
  }, []);
}

function Line({ icon: Icon, children, testid }) {
  return (
    <div className="flex items-start gap-2" data-testid={testid}>
      <Icon className="mt-0.5 h-3.5 w-3.5 ro-still" aria-hidden />
      <div className="min-w-0 flex-1">{children}</div>
    </div>
  );
}

export default function AnswerFoot() {
  const [open, setOpen] = useState(false);
  const foot = useRef(null);
  useSources(foot);
  return (
    <div ref={foot} className="ro-foot flex flex-col gap-1 text-xs text-muted-foreground">
      {props.stopped && <Line icon={CircleStop} testid="stopped">{props.stopped}</Line>}
      {props.reading && <Line icon={BookOpen} testid="reading">{props.reading}</Line>}
      {props.receipt && (
        <Line icon={Zap} testid="receipt">
          <button type="button" className="text-left hover:text-foreground" aria-expanded={open} onClick={() => setOpen(!open)}>
            {props.receipt}
          </button>
          {props.share !== null && (
            <div className="ro-meter" aria-hidden>
              <div style={{ width: `${(props.share * 100).toFixed(1)}%` }} />
            </div>
          )}
          {open && (
            <dl className="ro-details" data-testid="details">
              {props.details.map(([name, value]) => [<dt key={name}>{name}</dt>, <dd key={`${name} value`}>{value}</dd>])}
            </dl>
          )}
        </Line>
      )}
    </div>
  );
}
