// Hooks for React over a client.

import { useEffect, useState } from "react";
import { NEVER } from "rxjs";

const NOTHING = { value: null, error: null, isDone: false };

export const useRun = (client, id) => useNewest(client, id ? `run ${id}` : "", () => client.view$(id));

export function usePanel(client, board, panel, { run, conversation, at } = {}) {
  return useNewest(client, JSON.stringify([board, panel, run, conversation, at]), () => client.panel$(board, panel, { run, conversation, at }));
}

// The newest value of an observable, which is another one for another key; for an empty key there is none.
function useNewest(client, key, observe) {
  const [state, setState] = useState(NOTHING), isCurrent = (one) => one.client === client && one.key === key;
  useEffect(() => {
    const put = (part) => setState((before) => ({ ...(isCurrent(before) ? before : { ...NOTHING, client, key }), ...part }));
    const subscription = (key ? observe() : NEVER).subscribe({ next: (value) => put({ value }), error: (error) => put({ error }), complete: () => put({ isDone: true }) });
    return () => subscription.unsubscribe();
  }, [client, key]);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const subscription = client.problem$.subscribe(setProblem);
    return () => subscription.unsubscribe();
  }, [client]);
  return { ...(isCurrent(state) ? state : NOTHING), problem };
}
