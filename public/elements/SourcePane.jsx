// One source beside the chat: the rendered sheet with the quoted sentence marked, or the passage of a text file.
// props: doc_id, title, page, start, end, quote, where, words. The sheet is asked for when the pane opens.
import { useEffect, useRef, useState } from 'react';
import { ChevronLeft, ChevronRight } from 'lucide-react';
import { Button } from '@/components/ui/button';
import { Skeleton } from '@/components/ui/skeleton';

const kept = (globalThis.readonceSheets ??= new Map());

function useSheet(place) {
  const key = `${place.doc_id}/${place.page}/${place.start}`;
  const [sheet, setSheet] = useState(kept.get(key));
  useEffect(() => {
    if (kept.has(key)) {
      setSheet(kept.get(key));
      return;
    }
    let here = true;
    setSheet(undefined);
    const payload = { doc_id: place.doc_id, page: place.page, start: place.start, end: place.end, quote: props.quote };
    Promise.resolve(callAction({ name: 'open_source', payload }))
      .then((answer) => answer?.response ?? { problem: props.words.lost })
      .catch(() => ({ problem: props.words.lost }))
      .then((found) => {
        if (!found.problem) kept.set(key, found);
        if (kept.size > 24) kept.delete(kept.keys().next().value);
        if (here) setSheet(found);
      });
    return () => {
      here = false;
    };
  }, [key]);
  return sheet;
}

function Quote() {
  return (
    <figure className="ro-quote m-0 rounded-lg border p-3 text-sm" data-testid="quote">
      <blockquote className="m-0"><mark>{props.quote}</mark></blockquote>
      <figcaption className="mt-2 text-xs text-muted-foreground">{props.title} · {props.where}</figcaption>
    </figure>
  );
}

function Sheet({ sheet }) {
  const first = useRef(null);
  useEffect(() => {
    first.current?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
  }, [sheet]);
  const percent = (share) => `${(share * 100).toFixed(3)}%`;
  return (
    <div className="ro-sheet relative w-full overflow-hidden rounded-lg border bg-white shadow-sm">
      <img src={sheet.image} alt={sheet.where} className="block w-full" style={{ aspectRatio: sheet.aspect }} data-testid="sheet" />
      {sheet.boxes.map((box, index) => (
        <mark
          key={index}
          ref={index === 0 ? first : null}
          style={{ left: percent(box[0]), top: percent(box[1]), width: percent(box[2]), height: percent(box[3]) }}
        />
      ))}
    </div>
  );
}

function Passage({ sheet }) {
  const marked = useRef(null);
  useEffect(() => {
    marked.current?.scrollIntoView({ block: 'nearest', behavior: 'smooth' });
  }, [sheet]);
  return (
    <div className="ro-quote whitespace-pre-wrap break-words rounded-lg border bg-card p-4 text-sm" data-testid="passage">
      {sheet.before}
      <mark ref={marked}>{sheet.quote}</mark>
      {sheet.after}
    </div>
  );
}

export default function SourcePane() {
  const [cited, setCited] = useState({ doc_id: props.doc_id, page: props.page, start: props.start, end: props.end });
  const [page, setPage] = useState(props.page);
  const sheet = useSheet({ ...cited, page });
  const isNewer = cited.doc_id !== props.doc_id;
  const openNewer = ({ doc_id, page, start, end }) => {
    setCited({ doc_id, page, start, end });
    setPage(page);
  };
  const turn = (label, step, Icon, off) => (
    <Button variant="ghost" size="icon" className="h-8 w-8" disabled={off} aria-label={label} title={label} onClick={() => setPage(page + step)}>
      <Icon className="h-4 w-4" />
    </Button>
  );
  return (
    <div className="flex flex-col gap-3" data-testid="source">
      {!sheet?.removed && !isNewer && <Quote />}
      {!sheet && <Skeleton className="w-full rounded-lg" style={{ aspectRatio: '0.707' }} />}
      {sheet?.problem && <p className="text-sm text-muted-foreground">{sheet.problem}</p>}
      {sheet?.newer && (
        <Button variant="outline" className="h-auto whitespace-normal text-left" data-testid="newer" onClick={() => openNewer(sheet.newer)}>
          {sheet.newer.label}
        </Button>
      )}
      {sheet?.image && (
        <>
          <div className="flex items-center justify-between text-xs text-muted-foreground">
            {turn(props.words.previous, -1, ChevronLeft, page <= 1)}
            <span data-testid="where">{sheet.where}</span>
            {turn(props.words.next, 1, ChevronRight, page >= sheet.pages)}
          </div>
          {page === cited.page && cited.end > cited.start && sheet.boxes.length === 0 && (
            <p className="m-0 text-xs text-muted-foreground">{props.words.unmarked}</p>
          )}
          <Sheet sheet={sheet} />
        </>
      )}
      {sheet?.quote !== undefined && <Passage sheet={sheet} />}
    </div>
  );
}
