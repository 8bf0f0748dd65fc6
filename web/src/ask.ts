// A value that a page asks the server for: loading, there, or failed. The old value stays on the page until the new one
// is there. While a question is under way, a newer one waits for it: a run that changes every second must not keep a slow
// answer from ever arriving.
import {useEffect, useRef, useState} from "preact/hooks";
import {Failure} from "./api";

export interface Asked<T> {
  value: T | null;
  failure: Failure | null;
  loading: boolean;
}

interface Kept<T> extends Asked<T> {
  subject: string;
}

// Asked again when `subject` (what is asked) or `fresh` (how new it has to be) changes. `pause`: at least so many times
// the time of the last answer lies between two questions.
export function useAsked<T>(ask: (signal: AbortSignal) => Promise<T>, subject: string, fresh = 0, pause = 2): Asked<T> {
  const [kept, setKept] = useState<Kept<T>>({value: null, failure: null, loading: true, subject});
  const latest = useRef({ask, fresh});
  latest.current = {ask, fresh};
  useEffect(() => {
    const abort = new AbortController();
    let told = -1;
    let timer = 0;
    setKept((old) => (old.subject === subject ? old : {value: null, failure: null, loading: true, subject}));
    const round = async (): Promise<void> => {
      const now = latest.current;
      const began = performance.now();
      if (now.fresh !== told) {
        told = now.fresh;
        try {
          const value = await now.ask(abort.signal);
          if (!abort.signal.aborted) setKept({value, failure: null, loading: false, subject});
        } catch (error) {
          if (abort.signal.aborted) return;
          const failure = error instanceof Failure ? error : new Failure(0, String(error));
          setKept((old) => ({...old, failure, loading: false}));
        }
      }
      if (!abort.signal.aborted) timer = window.setTimeout(round, Math.max(200, (performance.now() - began) * pause));
    };
    void round();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [subject]);
  return kept.subject === subject ? kept : {value: null, failure: null, loading: true};
}
