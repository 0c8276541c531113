// Files on their way in: one line a file with its stage, then what became of it. The server sends new props as it goes.
// props: files: [{name, state: running | ready | warning | failed, stage, share (0 to 1 or null)}]
import { CircleAlert, CircleCheck, FileText, LoaderCircle, TriangleAlert } from 'lucide-react';

const ICONS = {
  running: [LoaderCircle, 'animate-spin text-primary'],
  ready: [CircleCheck, 'text-primary'],
  warning: [TriangleAlert, 'text-amber-500'],
  failed: [CircleAlert, 'text-destructive'],
};

export default function AddedFiles() {
  return (
    <div className="flex w-full max-w-xl flex-col divide-y rounded-xl border bg-card" data-testid="added-files">
      {props.files.map((file, index) => {
        const [Icon, look] = ICONS[file.state];
        return (
          <div key={index} className="flex items-start gap-3 p-3" data-state={file.state}>
            <FileText className="mt-0.5 h-5 w-5 flex-none text-muted-foreground" aria-hidden />
            <div className="min-w-0 flex-1">
              <div className="truncate text-sm font-medium" title={file.name}>{file.name}</div>
              <div className="text-xs leading-relaxed text-muted-foreground" role="status">{file.stage}</div>
              {file.state === 'running' && (
                <div className="mt-2 h-1 overflow-hidden rounded-full bg-muted">
                  <div
                    className={`h-full rounded-full bg-primary ${file.share === null ? 'animate-pulse' : ''}`}
                    style={{ width: `${Math.round((file.share ?? 1) * 100)}%` }}
                  />
                </div>
              )}
            </div>
            <Icon className={`mt-0.5 h-4 w-4 flex-none ${look}`} aria-hidden />
          </div>
        );
      })}
    </div>
  );
}
