// What stands under an answer: what was read, and the receipt in words with the share that was reused. It also opens the
// answer's sources beside the chat: Chainlit by itself would open all of them at once, as soon as the answer is there.
// Under the last answer of a chat stand the ways to go on: the whole document, another answer, the next question.
// props: sources {link text: props of SourcePane}, reading, receipt, share (0 to 1 or null), details, stopped,
// unsupported (the model's words, folded away), answer (its message), offer {label, cost, document} or null, follow_ups,
// words.
import { useEffect, useId, useRef, useState } from 'react';
import { useRecoilValue, useSetRecoilState } from 'recoil';
import { elementState, loadingState, messagesState, sideViewState } from '@chainlit/react-client';
import { BookOpen, BookOpenText, CircleStop, CornerDownRight, RotateCcw, Zap } from 'lucide-react';
import { Button } from '@/components/ui/button';

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

// The quote beside its mark, for the mouse and for the keyboard; Escape takes it away (WCAG 1.4.13).
function useTip(foot, id) {
  const [tip, setTip] = useState(null);
  useEffect(() => {
    const message = foot.current?.closest('.step');
    if (!message) return;
    let leaving;
    const linkOf = (event) => {
      const link = event.target.closest?.('a.element-link');
      return link && props.sources[link.textContent] ? link : null;
    };
    const show = (event) => {
      if (event.target.closest?.('.ro-tip')) return clearTimeout(leaving);
      const link = linkOf(event);
      if (!link || (event.type === 'mouseover' && !matchMedia('(hover: hover)').matches)) return;
      clearTimeout(leaving);
      link.setAttribute('aria-describedby', id);
      const box = link.getBoundingClientRect();
      const width = Math.min(352, innerWidth - 32);
      const left = Math.max(16, Math.min(box.left, innerWidth - width - 16));
      const above = box.bottom > innerHeight * 0.6;
      setTip({ source: props.sources[link.textContent], place: { left, width, ...(above ? { bottom: innerHeight - box.top + 6 } : { top: box.bottom + 6 }) } });
    };
    const hide = () => {
      clearTimeout(leaving);
      setTip(null);
    };
    // The way from the mark to the quote takes a moment.
    const leave = () => {
      clearTimeout(leaving);
      leaving = setTimeout(hide, 200);
    };
    const escape = (event) => event.key === 'Escape' && hide();
    const heard = [
      [message, 'mouseover', show],
      [message, 'focusin', show],
      [message, 'mouseout', leave],
      [message, 'focusout', leave],
      [message, 'click', hide],
      [document, 'keydown', escape],
      [document, 'scroll', hide],
    ];
    for (const [where, what, then] of heard) where.addEventListener(what, then, true);
    return () => {
      clearTimeout(leaving);
      for (const [where, what, then] of heard) where.removeEventListener(what, then, true);
    };
  }, []);
  return tip;
}

function Tip({ id, tip }) {
  return (
    <div id={id} role="tooltip" className="ro-tip" style={tip.place} data-testid="tip">
      <q>{tip.source.quote}</q>
      <div>{tip.source.title} · {tip.source.where}</div>
    </div>
  );
}

function lastAnswer(messages) {
  let last = null;
  for (const each of messages) {
    if (each.type === 'assistant_message') last = each.id;
    last = lastAnswer(each.steps ?? []) ?? last;
  }
  return last;
}

// Nothing here while an answer is being written, and nothing under an earlier one.
function Onward() {
  const isLast = lastAnswer(useRecoilValue(messagesState)) === props.answer;
  const loading = useRecoilValue(loadingState);
  if (!isLast || loading) return null;
  const again = (how, document) => callAction({ name: 'ask_again', payload: { answer: props.answer, how, document } });
  return (
    <div className="ro-onward" data-testid="onward">
      {props.offer && (
        <div className="ro-offer">
          <Button size="sm" onClick={() => again('whole', props.offer.document)} data-testid="read-whole">
            <BookOpenText className="h-4 w-4" aria-hidden />
            {props.offer.label}
          </Button>
          <span>{props.offer.cost}</span>
        </div>
      )}
      {props.follow_ups.length > 0 && (
        <div role="group" aria-label={props.words.ask_next} className="ro-next" data-testid="follow-ups">
          {props.follow_ups.map((question) => (
            <button key={question} type="button" onClick={() => callAction({ name: 'follow_up', payload: { question } })}>
              <CornerDownRight className="h-3.5 w-3.5 ro-still" aria-hidden />
              {question}
            </button>
          ))}
        </div>
      )}
      <button type="button" className="ro-again" title={props.words.answer_again_hint} onClick={() => again('afresh')} data-testid="answer-again">
        <RotateCcw className="h-3.5 w-3.5" aria-hidden />
        {props.words.answer_again}
      </button>
    </div>
  );
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
  const tipId = useId();
  useSources(foot);
  const tip = useTip(foot, tipId);
  return (
    <div ref={foot} className="ro-foot flex flex-col gap-1 text-xs text-muted-foreground">
      {props.stopped && <Line icon={CircleStop} testid="stopped">{props.stopped}</Line>}
      {props.unsupported && (
        <details className="ro-unsupported" data-testid="unsupported">
          <summary>{props.words.unsupported}</summary>
          <q>{props.unsupported}</q>
        </details>
      )}
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
      {props.answer && <Onward />}
      {tip && <Tip id={tipId} tip={tip} />}
    </div>
  );
}
