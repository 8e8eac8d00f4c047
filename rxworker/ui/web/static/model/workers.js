// The workers: their models, the prices of these, and the schemas of their tools.
//
// A run of the program may have a worker that the server does not list. Its description is requested once for each conversation.

// Whether another program performs the run with this summary: it takes no messages and no pause here.
export const isTapped = (summary) => summary?.worker?.startsWith("tap:") ?? false;

export class Workers {
  // `find(run)` returns a promise of the description of a run's worker or of null; `found()` is called when one has arrived.
  constructor(find, found) {
    this.find = find;
    this.found = found;
    this.listed = null;
    this.others = new Map(); // by conversation; null while unknown
    this.lacking = new Set(); // conversations of which the server has no worker
  }

  set(list) {
    this.listed = new Map(list.map((worker) => [worker.name, worker]));
    this.others.clear();
    this.lacking.clear();
  }

  // The worker of the run with this summary, or null as long as it is unknown.
  of(summary) {
    if (summary === null || this.listed === null) return null;
    const { id, conversation, worker } = summary, { others } = this;
    if (this.listed.has(worker)) return this.listed.get(worker);
    if (!others.has(conversation)) {
      others.set(conversation, null);
      this.find(id).then((found) => {
        others.set(conversation, found);
        if (found === null) this.lacking.add(conversation);
        this.found();
      }, () => {});
    }
    return others.get(conversation);
  }
}
