// Files on their way in: one line a file with its stage, then what became of it. It asks the server how far they are.
// props: adding (the card's id), files: [{name, state: running | ready | warning | failed, stage, share (0 to 1 or null)}]
import { useEffect, useState } from 'react';
import { CircleAlert, CircleCheck, FileText, LoaderCircle, TriangleAlert } from 'lucide-react';

const ASK_MS = 400;
const ICONS = {
  running: [LoaderCircle, 'animate-spin text-primary'],
  ready: [CircleCheck, 'text-primary'],
  warning: [TriangleAlert, 'ro-amber'],
  failed: [CircleAlert, 'text-destructive'],
};

// Chainlit makes the card anew whenever the chat around it changes: what it knew last is kept outside.
const kept = (globalThis.readonceAdding ??= new Map());

function useFiles() {
  const [files, setFiles] = useState(kept.get(props.adding) ?? props.files);
  useEffect(() => {
    let timer;
    let here = true;
    const look = async () => {
      let answer;
      try {
        answer = await callAction({ name: 'files_state', payload: { adding: props.adding } });
      } catch {
        // The server is gone for a moment; Chainlit says so.
      }
      if (!here) return;
      const now = answer?.response?.files ?? kept.get(props.adding) ?? props.files;
      kept.set(props.adding, now);
      setFiles(now);
      if (now.some((file) => file.state === 'running')) timer = setTimeout(look, ASK_MS);
    };
    if (files.some((file) => file.state === 'running')) look();
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, []);
  return files;
}

export default function AddedFiles() {
  const files = useFiles();
  return (
    <div className="ro-card w-full rounded-xl border bg-card" data-testid="added-files">
      {files.map((file, index) => {
        const [Icon, look] = ICONS[file.state];
        return (
          <div key={index} className="flex items-start gap-3 p-3" data-state={file.state}>
            <FileText className="mt-0.5 h-5 w-5 ro-still text-muted-foreground" aria-hidden />
            <div className="min-w-0 flex-1">
              <div className="truncate text-sm font-medium" title={file.name}>{file.name}</div>
              <div className="text-xs text-muted-foreground" role="status">{file.stage}</div>
              {file.state === 'running' && (
                <div className={`ro-meter ${file.share === null ? 'animate-pulse' : ''}`}>
                  <div style={{ width: `${Math.round((file.share ?? 1) * 100)}%` }} />
                </div>
              )}
            </div>
            <Icon className={`mt-0.5 h-4 w-4 ro-still ${look}`} aria-hidden />
          </div>
        );
      })}
    </div>
  );
}
