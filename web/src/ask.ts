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
  const round = useRef<() => void>(() => {});
  useEffect(() => {
    const abort = new AbortController();
    let told: number | null = null;
    let busy = false;
    let timer = 0;
    setKept((old) => (old.subject === subject ? old : {value: null, failure: null, loading: true, subject}));
    const next = async (): Promise<void> => {
      if (busy || latest.current.fresh === told) return;
      busy = true;
      told = latest.current.fresh;
      const began = performance.now();
      try {
        const value = await latest.current.ask(abort.signal);
        if (!abort.signal.aborted) setKept({value, failure: null, loading: false, subject});
      } catch (error) {
        if (abort.signal.aborted) return;
        const failure = error instanceof Failure ? error : new Failure(0, String(error));
        setKept((old) => ({...old, failure, loading: false}));
      }
      timer = window.setTimeout(() => {
        busy = false;
        void next();
      }, (performance.now() - began) * pause);
    };
    round.current = () => void next();
    void next();
    return () => {
      abort.abort();
      window.clearTimeout(timer);
    };
  }, [subject]);
  useEffect(() => round.current(), [fresh]);
  return kept.subject === subject ? kept : {value: null, failure: null, loading: true};
}
